"""PURE: policy, phases, events and actions of the round machine; see `machine.py`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from common.values import Value
from common.wire.messages import ClientMetrics, Connected, Info, Step
from fl_server.rounds.actions import Action as Action
from fl_server.rounds.actions import Announce as Announce
from fl_server.rounds.actions import Close as Close
from fl_server.rounds.actions import CountMetrics as CountMetrics
from fl_server.rounds.actions import Finish as Finish
from fl_server.rounds.actions import KeepData as KeepData
from fl_server.rounds.actions import Open as Open
from fl_server.rounds.actions import Publish as Publish
from fl_server.rounds.actions import Report as Report
from fl_server.rounds.actions import Reported as Reported
from fl_server.rounds.actions import SendSecrets as SendSecrets
from fl_server.rounds.actions import SendWeights as SendWeights
from fl_server.rounds.actions import Settle as Settle
from fl_server.rounds.phases import REPEAT_SECONDS as REPEAT_SECONDS
from fl_server.rounds.phases import Board as Board
from fl_server.rounds.phases import Closing as Closing
from fl_server.rounds.phases import Finished as Finished
from fl_server.rounds.phases import Gathering as Gathering
from fl_server.rounds.phases import Known as Known
from fl_server.rounds.phases import Phase as Phase
from fl_server.rounds.phases import Working as Working
from fl_server.rounds.policy import Policy as Policy
from fl_server.rounds.requests import Request, Requested


class State(Value, frozen=True):
    """Everything the coordinator decides on; `started` is when this one began.

    `reported` are the clients whose boards have reported how much data of their own they have.
    `busy` are, between two buffered rounds, those who train, and from which round's model.
    """

    phase: Phase
    incarnation: int = 1
    done: int = 0
    boards: Mapping[str, Board] = msgspec.field(default_factory=dict)
    accepted: Mapping[int, int] = msgspec.field(default_factory=dict)
    started: float = -math.inf
    reported: frozenset[int] = frozenset()
    request: Request = "run"
    busy: Mapping[int, int] = msgspec.field(default_factory=dict)
    known: Mapping[int, Known] = msgspec.field(default_factory=dict)

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
class Answered:
    """What a client contributes to a step of a secured round is on disk."""

    client: int
    round_number: int
    step: Step
    now: float


@dataclass(frozen=True, slots=True)
class Aggregated:
    """The new global model is on disk; `known` is what rules of selection may look at."""

    round_number: int
    now: float
    known: Mapping[int, Known] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reconnected:
    """The link is (again) up."""

    now: float


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passes."""

    now: float


_Answer: TypeAlias = Received | Stored | Rejected | Uncountable | Answered | Strayed
Event: TypeAlias = _Answer | Aggregated | Reconnected | Requested | Tick
