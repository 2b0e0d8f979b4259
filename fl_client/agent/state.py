"""PURE: policy, state, events and actions of the board's machine; see `machine.py`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec

from common.values import Value
from common.wire.messages import (
    ClientData,
    ClientMetrics,
    CurrentRound,
    Info,
    Selected,
    Step,
    TrainDetail,
    TrainEnd,
)


@dataclass(frozen=True, slots=True)
class Policy:
    """What this board is."""

    board: str
    clients: tuple[int, ...]
    workers: int = 1


Kind: TypeAlias = Literal["train", "test"]
ResultKey: TypeAlias = tuple[Kind | Step, int, int]  # of a job, or an answer: client, round


@dataclass(frozen=True, slots=True)
class Job:
    """Train or test one client in one round, starting from its snapshot of round `base`."""

    kind: Kind
    client: int
    round: int
    base: int | None


class Retry(Value, frozen=True):
    """A job that failed: it is not started again before `at`."""

    at: float
    gap: float


class Work(Value, frozen=True):
    """A run that is open on this board.

    `snapshots` has, for every client, the rounds whose snapshot is on disk; `metrics` and
    `results` come from this round's jobs; `sent`: when a result was last sent (infinite: it is
    being sent). `private`: a client that trains also needs a download of its own. `data` is
    what is reported of this board's own data. `secure`: updates are masked.
    """

    run: str
    coupled: bool = False
    stateful: bool = False
    private: bool = False
    snapshots: Mapping[int, frozenset[int]] = msgspec.field(default_factory=dict)
    jobs: frozenset[Job] = frozenset()
    cancelled: frozenset[Job] = frozenset()
    metrics: Mapping[int, ClientMetrics] = msgspec.field(default_factory=dict)
    results: Mapping[int, Info] = msgspec.field(default_factory=dict)
    sent: Mapping[ResultKey, float] = msgspec.field(default_factory=dict)
    retries: Mapping[ResultKey, Retry] = msgspec.field(default_factory=dict)
    part_at: float = -math.inf
    data: Mapping[int, ClientData] = msgspec.field(default_factory=dict)
    data_sent: float = -math.inf
    secure: bool = False


class State(Value, frozen=True):
    """What the board has received, in whatever order, and the run it works on.

    `current` and `selected` have a message per run: for the run of `detail` and one other, so
    that a message of an old run cannot displace that of the new one; `ours` has both of a run,
    with what they say of this board's clients. `confirmed_at` is when
    anything of any board was last confirmed. `weights` are the (run, round) of the whole models
    on disk, the newest last; `private` has, for every client, the (run, round) of its own whole
    download, and `steps` which step of a secured round it is for. `code`: that it opened with.
    """

    detail: TrainDetail | None = None
    current: Mapping[str, CurrentRound] = msgspec.field(default_factory=dict)
    selected: Mapping[str, Selected] = msgspec.field(default_factory=dict)
    ours: Mapping[str, tuple[CurrentRound, Selected]] = msgspec.field(default_factory=dict)
    confirmed_at: float = -math.inf
    weights: tuple[tuple[str, int], ...] = ()
    private: Mapping[int, tuple[str, int]] = msgspec.field(default_factory=dict)
    steps: Mapping[int, tuple[str, int, Step]] = msgspec.field(default_factory=dict)
    ended: frozenset[str] = frozenset()
    opening: str = ""
    reopen_at: float = -math.inf
    code: Mapping[str, str] = msgspec.field(default_factory=dict)
    work: Work | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """A message of the coordinator."""

    message: TrainDetail | CurrentRound | Selected | TrainEnd
    now: float


@dataclass(frozen=True, slots=True)
class Opened:
    """A run's state folder is open and has these snapshots."""

    run: str
    snapshots: Mapping[int, frozenset[int]]
    coupled: bool
    now: float
    stateful: bool = False
    private: bool = False
    data: Mapping[int, ClientData] = field(default_factory=dict)
    secure: bool = False


@dataclass(frozen=True, slots=True)
class OpenFailed:
    """This board cannot take part in a run."""

    run: str
    now: float


@dataclass(frozen=True, slots=True)
class PartReceived:
    """A part of a round's download arrived; `complete`: it was the last one missing.

    `client` is None for the download of all; `step` is of a secured round.
    """

    run: str
    round: int
    complete: bool
    now: float
    client: int | None = None
    step: Step = ""


@dataclass(frozen=True, slots=True)
class EpochFinished:
    """A training has finished an epoch."""

    job: Job
    info: Info
    now: float


@dataclass(frozen=True, slots=True)
class Trained:
    """A training is done and its snapshot is on disk."""

    job: Job
    info: Info
    now: float


@dataclass(frozen=True, slots=True)
class Tested:
    """A test is done."""

    job: Job
    metrics: ClientMetrics
    now: float


@dataclass(frozen=True, slots=True)
class JobFailed:
    """A job did not finish: cancelled (no problem), or failed; `final`: it always would."""

    job: Job
    problem: str
    now: float
    final: bool = False


@dataclass(frozen=True, slots=True)
class UpdateStreamed:
    """The broker has acknowledged every part of an update."""

    client: int
    round: int
    now: float


@dataclass(frozen=True, slots=True)
class SnapshotLost:
    """A snapshot turned out to be damaged and was deleted."""

    client: int
    round: int
    now: float


@dataclass(frozen=True, slots=True)
class Reconnected:
    """The link is up (again)."""

    now: float


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passes."""

    now: float


OfWork: TypeAlias = EpochFinished | Trained | Tested | JobFailed | UpdateStreamed
Event: TypeAlias = (
    Received | Opened | OpenFailed | PartReceived | OfWork | SnapshotLost | Reconnected | Tick
)


@dataclass(frozen=True, slots=True)
class OpenRun:
    """Open a run's state folder and get ready to train; `Opened` or `OpenFailed` follows."""

    detail: TrainDetail


@dataclass(frozen=True, slots=True)
class CloseRun:
    """Stop all jobs of a run and release what it holds; its state stays on disk."""

    run: str


@dataclass(frozen=True, slots=True)
class StartJob:
    """Do a job; `Trained`, `Tested` or `JobFailed` follows."""

    job: Job


@dataclass(frozen=True, slots=True)
class CancelJob:
    """Stop a job whose result is not needed any more."""

    job: Job


@dataclass(frozen=True, slots=True)
class SendUpdate:
    """Publish the update of a snapshot; `UpdateStreamed` follows.

    `again`: it was sent before without effect, so its digest should be checked first.
    """

    client: int
    round: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class SendSecret:
    """Publish what a client contributes to a step of a secured round."""

    client: int
    round: int
    step: Step


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish this message."""

    message: Info | ClientMetrics


@dataclass(frozen=True, slots=True)
class Prune:
    """Delete all snapshots of a client but these."""

    client: int
    keep: frozenset[int]


_OfJobs: TypeAlias = StartJob | CancelJob | SendUpdate | SendSecret
Action: TypeAlias = OpenRun | CloseRun | _OfJobs | Publish | Prune
