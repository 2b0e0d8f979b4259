"""PURE: what a run has brought so far, small enough to be published again and again.

The coordinator adds it to its presence, so that a viewer who comes in the middle of a run sees
all of it at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from common.wire.messages import HISTORY, RoundLine, bounded
from fl_server.watch import facts
from fl_server.watch.facts.lines import TrainingLine, number_in

NEWEST = 16  # of the lines that are kept when there are too many, those at the end


class History:
    """One line per finished round; `main` is the task's main metric."""

    def __init__(self, lines: Iterable[TrainingLine] = (), main: str = "accuracy") -> None:
        self._names = {name: name.replace("main", main) for name in RoundLine.__struct_fields__}
        self._known: dict[int, RoundLine] = {}
        self.lines: tuple[RoundLine, ...] = ()
        for line in lines:
            self._add(line)
        self.lines = thinned(self._known)

    def observe(self, fact: facts.Fact) -> None:
        """Take a fact of the coordinator."""
        if isinstance(fact, facts.Evaluated | facts.RoundClosed):
            self._add(fact)
            self.lines = thinned(self._known)

    def _add(self, line: TrainingLine) -> None:
        known = self._known.get(line.round, RoundLine(round=line.round))
        found = {name: number_in(line, of_line) for name, of_line in self._names.items()}
        new = {
            name: _short(value)
            for name, value in found.items()
            if value is not None and bounded(value) is not None
        }
        self._known[line.round] = msgspec.structs.replace(known, **new)


def _short(value: int | float) -> int | float:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def thinned(known: Mapping[int, RoundLine]) -> tuple[RoundLine, ...]:
    """At most HISTORY lines in order: the newest, and evenly chosen ones before them.

    Round 0, the untrained model, is among them; which others are changes seldom, so that
    a viewer who listens on knows more and more of them.
    """
    rounds = sorted(known)
    old, new = rounds[:-NEWEST], rounds[-NEWEST:]
    step = 1
    while len(range(0, len(old), step)) > HISTORY - NEWEST:
        step *= 2
    return tuple(known[round_number] for round_number in (*old[::step], *new))


def both(first: facts.Observer, second: facts.Observer) -> facts.Observer:
    """Two observers as one."""

    def observe(fact: facts.Fact) -> None:
        first(fact)
        second(fact)

    return observe
