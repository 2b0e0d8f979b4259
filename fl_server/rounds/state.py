"""PURE: policy, phases, events and actions of the round machine; see `machine.py`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from common.wire.messages import (
    ClientData,
    ClientMetrics,
    Connected,
    CurrentRound,
    Info,
    Selected,
    TrainEnd,
)
from fl_server.rounds.phases import REPEAT_SECONDS as REPEAT_SECONDS
from fl_server.rounds.phases import Board as Board
from fl_server.rounds.phases import Closing as Closing
from fl_server.rounds.phases import Finished as Finished
from fl_server.rounds.phases import Gathering as Gathering
from fl_server.rounds.phases import Phase as Phase
from fl_server.rounds.phases import Working as Working
from fl_server.rounds.policy import Policy as Policy
from fl_server.rounds.wishes import Wish, Wished
from fl_server.watch import facts


@dataclass(frozen=True, slots=True)
class State:
    """Everything the coordinator decides on; `started` is when this one began.

    `reported` are the clients whose boards have reported how much data of their own they have.
    `busy` are, between two buffered rounds, those who train, and from which round's model.
    """

    phase: Phase
    incarnation: int = 1
    done: int = 0
    boards: Mapping[str, Board] = field(default_factory=dict)
    accepted: Mapping[int, int] = field(default_factory=dict)
    started: float = -math.inf
    reported: frozenset[int] = frozenset()
    wish: Wish = "run"
    busy: Mapping[int, int] = field(default_factory=dict)

    def registered(self, *, connected: bool = False) -> frozenset[int]:
        """Clients that some board simulates (`connected`: a board that is there now)."""
        boards = (b for b in self.boards.values() if b.lost_at is None or not connected)
        return frozenset(
            client
            for board in boards
            for client in board.clients
            if not connected or client not in board.away
        )

    def owner(self, client: int) -> str | None:
        """The board that simulates a client; one that is there before one that is lost."""
        have = [name for name, board in self.boards.items() if client in board.clients]
        there = (name for name in have if self.boards[name].lost_at is None)
        return next(there, have[0] if have else None)

    def owners(self) -> dict[int, Board]:
        """The same for all registered clients at once."""
        found: dict[int, Board] = {}
        for _, board in self._present_first():
            for client in board.clients:
                found.setdefault(client, board)
        return found

    def owner_names(self) -> dict[int, str]:
        """The name of the board of every registered client."""
        found: dict[int, str] = {}
        for name, board in self._present_first():
            for client in board.clients:
                found.setdefault(client, name)
        return found

    def _present_first(self) -> list[tuple[str, Board]]:
        return sorted(self.boards.items(), key=lambda item: item[1].lost_at is not None)


@dataclass(frozen=True, slots=True)
class Received:
    """A board's message arrived."""

    message: Connected | Info | ClientMetrics
    now: float


@dataclass(frozen=True, slots=True)
class Stored:
    """An update is on disk, complete and verified; or a sum of `client` and these others."""

    client: int
    round_number: int
    now: float
    others: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejected:
    """An update arrived whole and cannot be used."""

    client: int
    round_number: int
    reason: str
    now: float


@dataclass(frozen=True, slots=True)
class Uncountable:
    """A client's counts arrived and cannot be used."""

    client: int
    round_number: int
    reason: str
    now: float


@dataclass(frozen=True, slots=True)
class Strayed:
    """A part of another round, or a repetition, arrived: a board is not up to date."""

    now: float


@dataclass(frozen=True, slots=True)
class Aggregated:
    """The new global model is on disk."""

    round_number: int
    now: float


@dataclass(frozen=True, slots=True)
class Reconnected:
    """The link is (again) up."""

    now: float


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passes."""

    now: float


_Answer: TypeAlias = Received | Stored | Rejected | Uncountable | Strayed
Event: TypeAlias = _Answer | Aggregated | Reconnected | Wished | Tick


@dataclass(frozen=True, slots=True)
class Announce:
    """Publish train_detail."""


@dataclass(frozen=True, slots=True)
class SendWeights:
    """Publish the global model of this round."""

    round_number: int


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish this message."""

    message: CurrentRound | Selected | TrainEnd


@dataclass(frozen=True, slots=True)
class Open:
    """Journal who is in this round, before it is published (again, with more, if it lacks
    updates: its counts stay)."""

    round_number: int
    selected: tuple[int, ...]
    testers: tuple[int, ...]
    started: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Close:
    """The round is over: aggregate these updates (if there was training), write the metrics."""

    round_number: int
    used: tuple[int, ...]
    dropped: tuple[int, ...]
    training: bool
    started: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CountMetrics:
    """A client's counts are new and belong to the open round: add them up."""

    metrics: ClientMetrics


@dataclass(frozen=True, slots=True)
class KeepData:
    """A board has reported how much data of its own a client has."""

    client: int
    data: ClientData


@dataclass(frozen=True, slots=True)
class Finish:
    """The run is over."""

    reason: str


Reported: TypeAlias = (
    facts.BoardConnected
    | facts.Back
    | facts.Lost
    | facts.Foreign
    | facts.Waiting
    | facts.Failed
    | facts.StateLost
    | facts.Rejected
    | facts.Called
    | facts.Dropped
    | facts.Uncounted
    | facts.Control
)


@dataclass(frozen=True, slots=True)
class Report:
    """Report this to the event log and the screen."""

    fact: Reported


Action: TypeAlias = (
    Announce | SendWeights | Publish | Open | Close | CountMetrics | KeepData | Finish | Report
)
