"""PURE: where the time of a run went and what went wrong in it, from its events."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Event: TypeAlias = Mapping[str, Any]  # one JSON object of events.jsonl


@dataclass(slots=True)
class BoardTimes:
    """Seconds of every training of a board, and around it."""

    trainings: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    sendings: list[float] = field(default_factory=list)

    def add(self, other: BoardTimes) -> None:
        """Take those of another run."""
        self.trainings += other.trainings
        self.waits += other.waits
        self.sendings += other.sendings


def board_times(events: Sequence[Event]) -> dict[str, BoardTimes]:
    """For every board: how long clients trained, waited before it (for the model, and for other
    clients of the board) and how long their updates took to be safe afterwards."""
    opened: dict[int, float] = {}
    trained: dict[tuple[int, int], Event] = {}
    found: dict[str, BoardTimes] = defaultdict(BoardTimes)
    for event in events:
        kind = event["event"]
        if kind == "round_opened":
            opened.setdefault(event["round"], event["time"])
        elif kind == "trained" and (event["round"], event["client"]) not in trained:
            trained[event["round"], event["client"]] = event
            board = found[event["board"]]
            board.trainings.append(event["seconds"])
            if event["round"] in opened:
                wait = event["time"] - event["seconds"] - opened[event["round"]]
                board.waits.append(max(0.0, wait))
        elif kind == "update" and (done := trained.get((event["round"], event["client"]))):
            found[done["board"]].sendings.append(max(0.0, event["time"] - done["time"]))
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


def faults(events: Sequence[Event], lines: Sequence[Event]) -> dict[str, int]:
    """How often each thing went wrong; `dropped` counts clients that rounds went on without."""
    kinds = [event["event"] for event in events]
    found = {kind: kinds.count(kind) for kind in FAULTS}
    found["restarts"] = max(0, kinds.count("started") - 1)
    found["dropped"] = sum(len(line.get("dropped") or ()) for line in lines)
    return found
