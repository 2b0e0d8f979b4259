"""PURE: what happens in a fleet in virtual time, and what boards learn and spend."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from fl_server.fleet.kinds import FleetBoard

Kind: TypeAlias = Literal["train", "test"]
KINDS: tuple[Kind, ...] = ("train", "test")


@dataclass(frozen=True, slots=True)
class Effort:
    """What the clients' jobs take, in training samples, and the size of an update."""

    train: Mapping[int, float]
    test: Mapping[int, float]
    update: int


@dataclass(frozen=True, slots=True)
class Job:
    """A training or test on its way; `share` of a training is done when it ends."""

    kind: Kind
    client: int
    round_number: int
    board: int
    start: float
    end: float
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Came:
    """A board is there."""

    board: FleetBoard


@dataclass(frozen=True, slots=True)
class Left:
    """A board is away."""

    board: FleetBoard


@dataclass(frozen=True, slots=True)
class Arrived:
    """The result of a job has reached the coordinator."""

    job: Job


@dataclass(frozen=True, slots=True)
class Computed:
    """A board has done a job."""

    job: Job


Happening: TypeAlias = Came | Left | Arrived


@dataclass(slots=True)
class Spent:
    """What each board has spent on computing, sending and receiving: joules and seconds."""

    joules: dict[int, float] = field(default_factory=dict)
    busy: dict[int, float] = field(default_factory=dict)

    def add(self, board: int, seconds: float, watts: float) -> None:
        """A board has drawn so much for so long."""
        if seconds > 0:
            self.joules[board] = self.joules.get(board, 0.0) + seconds * watts
            self.busy[board] = self.busy.get(board, 0.0) + seconds


@dataclass(frozen=True, slots=True)
class Opening:
    """A round as boards learn of it; trainings end at `until` at the latest.

    `started` are the trainers in buffered rounds, and the rounds whose models they train.
    Without a `download` nothing is sent but that.
    """

    round_number: int
    trainers: Collection[int]
    testers: Collection[int]
    download: int
    started: Mapping[int, int] = field(default_factory=dict)
    until: float = math.inf


@dataclass(frozen=True, slots=True)
class Pending:
    """Something that will happen, as it stands in a file."""

    time: float
    count: int
    what: Literal["came", "left", "arrived", "computed"]
    board: int
    job: Job | None = None


@dataclass(frozen=True, slots=True)
class Saved:
    """Everything that is on its way, as it stands in a file."""

    pending: tuple[Pending, ...]
    jobs: tuple[Job, ...]
    up_free: tuple[float, ...]
    down_free: tuple[float, ...]
    count: int
