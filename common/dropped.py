"""Messages that were not for us or not understood: counted always, logged once per kind."""

from __future__ import annotations

import logging
from collections import Counter

log = logging.getLogger(__name__)


class Dropped:
    """How many messages of which kind were dropped."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def note(self, kind: str, topic: str, size: int, reason: str) -> bool:
        """Count one; True (and a warning in the log) if it is the first of its kind."""
        self._counts[kind] += 1
        first = self._counts[kind] == 1
        if first:
            log.warning(
                "dropped a message on %s (%d bytes): %s (said once per kind)",
                topic[:100],
                size,
                reason,
            )
        return first

    def counts(self) -> dict[str, int]:
        """Kind -> how many."""
        return dict(self._counts)
