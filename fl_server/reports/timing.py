"""PURE: where the time of a run went and what went wrong in it, from its events."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from fl_server.reports.groups import Group
from fl_server.watch import facts
from fl_server.watch.facts import Fact
from fl_server.watch.facts.lines import MetricsLine
from fl_server.watch.facts.making import kind_of


@dataclass(slots=True)
class BoardTimes:
    """Seconds of every training of a board, and around it."""

    trainings: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    sendings: list[float] = field(default_factory=list)
    last: int = 0  # rounds whose last update was its: the others waited for it

    def add(self, other: BoardTimes) -> None:
        """Take those of another run."""
        self.trainings += other.trainings
        self.waits += other.waits
        self.sendings += other.sendings
        self.last += other.last


def board_times(events: Sequence[Fact]) -> dict[str, BoardTimes]:
    """For every board: how long clients trained, waited before it (for the model, and for other
    clients of the board) and how long their updates took to be safe afterwards."""
    opened: dict[int, float] = {}
    trained: dict[tuple[int, int], facts.Trained] = {}
    last: dict[int, str] = {}
    found: dict[str, BoardTimes] = defaultdict(BoardTimes)
    for fact in events:
        match fact:
            case facts.RoundOpened():
                opened.setdefault(fact.round, fact.time)
            case facts.Trained() if (fact.round, fact.client) not in trained:
                trained[fact.round, fact.client] = fact
                board = found[fact.board]
                board.trainings.append(fact.seconds)
                if fact.round in opened:
                    wait = fact.time - fact.seconds - opened[fact.round]
                    board.waits.append(max(0.0, wait))
            case facts.Update() if done := trained.get((fact.round, fact.client)):
                found[done.board].sendings.append(max(0.0, fact.time - done.time))
                last[fact.round] = done.board
            case _:
                pass
    for name in last.values():
        found[name].last += 1
    return dict(found)


def mean(seconds: Sequence[float]) -> float | None:
    """The mean, if there is anything."""
    return math.fsum(seconds) / len(seconds) if seconds else None


FAULTS = {
    "fault": "faults made",
    "restarts": "server restarts",
    "broker_down": "broker losses",
    "lost": "boards lost",
    "back": "boards back",
    "failed": "trainings failed",
    "late": "late updates",
    "rejected": "updates rejected",
    "state_lost": "states lost",
    "dropped": "clients dropped",
}


def faults(events: Sequence[Fact], lines: Sequence[MetricsLine]) -> dict[str, int]:
    """How often each thing went wrong; `dropped` counts clients that rounds went on without."""
    kinds = [kind_of(fact) for fact in events]
    found = {kind: kinds.count(kind) for kind in FAULTS}
    found["restarts"] = max(0, kinds.count("started") - 1)
    found["dropped"] = sum(len(line.dropped or ()) for line in lines)
    return found


def times_of(group: Group) -> dict[str, BoardTimes]:
    """The times of each board over all runs of a group."""
    found: dict[str, BoardTimes] = {}
    for run in group.runs:
        for name, times in board_times(run.events).items():
            found.setdefault(name, BoardTimes()).add(times)
    return dict(sorted(found.items(), key=lambda item: (len(item[0]), item[0])))
