"""What a run has brought so far, small enough to be said again and again.

The coordinator adds it to its presence, so that whoever begins to watch in the middle of a run
sees all of it at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from common.wire.messages import HISTORY, RoundLine

NEWEST = 16  # of the lines that are kept when there are too many, those at the end

_FIELDS = RoundLine.__struct_fields__


class History:
    """One line per finished round; facts may be observed in any thread."""

    def __init__(self, lines: Iterable[Mapping[str, Any]] = ()) -> None:
        self._known: dict[int, RoundLine] = {}
        self.lines: tuple[RoundLine, ...] = ()
        for line in lines:
            self._add(line)
        self.lines = thinned(self._known)

    def observe(self, fact: Mapping[str, Any]) -> None:
        """Take a fact of the coordinator."""
        if fact["event"] in ("evaluated", "round_closed"):
            self._add(fact)
            self.lines = thinned(self._known)

    def _add(self, line: Mapping[str, Any]) -> None:
        known = self._known.get(line["round"])
        old = {} if known is None else msgspec.structs.asdict(known)
        new = {key: _short(line[key]) for key in _FIELDS if line.get(key) is not None}
        self._known[line["round"]] = RoundLine(**{**old, **new})


def _short(value: Any) -> Any:  # noqa: ANN401 - of JSON
    return round(value, 5) if isinstance(value, float) else value


def thinned(known: Mapping[int, RoundLine]) -> tuple[RoundLine, ...]:
    """At most HISTORY lines in order: the newest, and evenly chosen ones before them.

    Round 0, the untrained model, is among them; which others are changes seldom, so that
    somebody who listens on knows more and more of them.
    """
    rounds = sorted(known)
    old, new = rounds[:-NEWEST], rounds[-NEWEST:]
    step = 1
    while len(range(0, len(old), step)) > HISTORY - NEWEST:
        step *= 2
    return tuple(known[round_number] for round_number in (*old[::step], *new))


def both(first: Callable[[Any], None], second: Callable[[Any], None]) -> Callable[[Any], None]:
    """Two observers as one."""

    def observe(fact: Any) -> None:  # noqa: ANN401 - whatever both take
        first(fact)
        second(fact)

    return observe
