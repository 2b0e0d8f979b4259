"""PURE: policy, state, events and actions of a site's relay; see `machine.py`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from common.wire.messages import (
    ClientMetrics,
    Connected,
    CurrentRound,
    Info,
    Selected,
    TrainDetail,
    TrainEnd,
)
from fl_server.rounds import state as rounds

REPEAT_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Policy:
    """What this relay is; `start` is larger than that of all its starts before."""

    site: str
    clients: tuple[int, ...]
    start: int


@dataclass(frozen=True, slots=True)
class Work:
    """A run that is open here.

    `stored` are the clients whose update of this round is on disk, `odd` those among them that
    no sum can hold. `sums` has what goes up: the clients in it, and when it was last sent
    (infinite: it is being sent). `ready`: what is on disk of this round is known.
    """

    run: str
    grace: float = math.inf
    deadline: float = math.inf
    round: int = 0
    ready: bool = False
    opened: float = -math.inf
    stored: frozenset[int] = frozenset()
    odd: frozenset[int] = frozenset()
    failed: Mapping[int, float] = field(default_factory=dict)
    sums: Mapping[tuple[int, ...], float] = field(default_factory=dict)
    published: float = -math.inf
    repeated: float = -math.inf
    gap: float = REPEAT_SECONDS
    unpublished: bool = False
    model_sent: float = -math.inf


def _nobody() -> rounds.State:
    return rounds.State(rounds.Gathering(0.0))


@dataclass(frozen=True, slots=True)
class State:
    """What the coordinator has published, in whatever order, and the run that is open here.

    `model` is the (run, round) whose model is here. `boards` are those of the site, known as
    the coordinator knows its own. `away` are the clients without a board as last published.
    """

    detail: TrainDetail | None = None
    current: Mapping[str, CurrentRound] = field(default_factory=dict)
    selected: Mapping[str, Selected] = field(default_factory=dict)
    ended: frozenset[str] = frozenset()
    model: tuple[str, int] | None = None
    part_at: float = -math.inf
    opening: str = ""
    refused: str = ""
    work: Work | None = None
    boards: rounds.State = field(default_factory=_nobody)
    away: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class FromCoordinator:
    """A message of the coordinator arrived."""

    message: TrainDetail | CurrentRound | Selected | TrainEnd
    now: float


@dataclass(frozen=True, slots=True)
class FromBoard:
    """A message of a board of the site arrived."""

    message: Connected | Info | ClientMetrics
    now: float


@dataclass(frozen=True, slots=True)
class PartReceived:
    """A part of a round's model arrived; `complete`: the model is here."""

    run: str
    round: int
    complete: bool
    now: float


@dataclass(frozen=True, slots=True)
class Stored:
    """A client's update is on disk; `odd`: no sum can hold it."""

    run: str
    round: int
    client: int
    odd: bool
    now: float


@dataclass(frozen=True, slots=True)
class Strayed:
    """A board sent something that is not wanted: it is not up to date."""

    now: float


@dataclass(frozen=True, slots=True)
class RunOpened:
    """The updates of a run can be added up here, and it has this patience."""

    run: str
    grace: float
    deadline: float
    now: float


@dataclass(frozen=True, slots=True)
class RunRefused:
    """The updates of a run cannot be added up here."""

    run: str
    now: float


@dataclass(frozen=True, slots=True)
class RoundOpened:
    """These updates of a round are on disk."""

    run: str
    round: int
    stored: frozenset[int]
    odd: frozenset[int]
    now: float


@dataclass(frozen=True, slots=True)
class SumStreamed:
    """The broker has every part of a sum."""

    round: int
    clients: tuple[int, ...]
    now: float


@dataclass(frozen=True, slots=True)
class SiteUp:
    """The connection to the site's broker is (again) up."""

    now: float


@dataclass(frozen=True, slots=True)
class UplinkUp:
    """The connection to the coordinator's broker is (again) up."""

    now: float


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passes."""

    now: float


_Arrival: TypeAlias = FromCoordinator | FromBoard | PartReceived | Stored | Strayed
_Opening: TypeAlias = RunOpened | RunRefused | RoundOpened
Event: TypeAlias = _Arrival | _Opening | SumStreamed | SiteUp | UplinkUp | Tick


@dataclass(frozen=True, slots=True)
class ToSite:
    """Publish this on the site's broker."""

    message: TrainDetail | CurrentRound | Selected | TrainEnd


@dataclass(frozen=True, slots=True)
class ToUplink:
    """Publish this on the coordinator's broker."""

    message: Info | ClientMetrics


@dataclass(frozen=True, slots=True)
class PublishAway:
    """Publish which clients have no board now."""

    clients: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SendModel:
    """Publish the model of a round on the site's broker."""

    run: str
    round: int


@dataclass(frozen=True, slots=True)
class SendSum:
    """Send the sum of these clients' updates up; that of one client as it came."""

    round: int
    clients: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OpenRun:
    """Find out whether a run can be done here; RunOpened or RunRefused follows."""

    detail: TrainDetail


@dataclass(frozen=True, slots=True)
class OpenRound:
    """Read what is on disk of a round, and forget others; RoundOpened follows."""

    run: str
    round: int


@dataclass(frozen=True, slots=True)
class CloseRun:
    """Forget a run."""

    run: str


@dataclass(frozen=True, slots=True)
class Note:
    """Write this to the log."""

    text: str


Action: TypeAlias = (
    ToSite
    | ToUplink
    | PublishAway
    | SendModel
    | SendSum
    | OpenRun
    | OpenRound
    | CloseRun
    | Note
)
