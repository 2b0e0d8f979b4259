"""Messages that are dropped (not for us, or invalid): counted always, logged once per kind.

Nothing here grows with what others send: kinds and senders beyond a bound share one entry.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from common.errors import ClaimError, StoreError

log = logging.getLogger(__name__)

MOST_KINDS = 64
MOST_SENDERS = 1000
OTHERS = "others"
_PARTICULARS = re.compile(r"'[^']*'|\"[^\"]*\"|\d+")


class DropCounter:
    """How many messages of which kind were dropped, and whose."""

    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()
        self._senders: dict[str, Counter[str]] = {}

    def note(
        self, kind: str, topic: str, size: int, reason: str, *, sender: str = OTHERS
    ) -> bool:
        """Count one; True (and a warning in the log) if it is the first of its kind."""
        first = self._count(kind, sender, 1) == 1
        if first:
            log.warning(
                "dropped a message on %s (%d bytes): %s (logged once per kind)",
                topic[:100],
                size,
                reason[:500],
            )
        return first

    @contextmanager
    def guard(self, topic: str, size: int) -> Iterator[None]:
        """Drop a message that we fail to handle: that is our error, but it ends no process.

        Only a rival with our claim, and a disk that cannot be written, are passed on.
        """
        try:
            yield
        except (ClaimError, StoreError):
            raise
        except Exception as error:
            name = type(error).__name__
            if self.note(f"cannot be handled: {name}", topic, size, f"{name}: {error}"):
                log.exception("a message on %s could not be handled", topic[:100])

    def add(self, kind: str, sender: str, count: int) -> None:
        """Count some without logging."""
        self._count(kind, sender, count)

    def _count(self, kind: str, sender: str, count: int) -> int:
        general = _PARTICULARS.sub("*", kind)[:100]
        if general not in self._kinds and len(self._kinds) >= MOST_KINDS:
            general = OTHERS
        if sender not in self._senders and len(self._senders) >= MOST_SENDERS:
            sender = OTHERS
        self._kinds[general] += count
        self._senders.setdefault(sender, Counter())[general] += count
        return self._kinds[general]

    def counts(self) -> dict[str, int]:
        """Kind -> how many."""
        return dict(self._kinds)

    def by_sender(self) -> dict[str, dict[str, int]]:
        """Sender -> kind -> how many."""
        return {sender: dict(kinds) for sender, kinds in sorted(self._senders.items())}
