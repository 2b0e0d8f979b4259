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

    `owned` has the board of every registered client: that which claimed it last. `reported` are
    the clients whose boards have reported how much data of their own they have.
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
    owned: Mapping[int, str] = msgspec.field(default_factory=dict)

    def registered(self, *, connected: bool = False) -> frozenset[int]:
        """Clients that some board simulates (`connected`: a board that is there now)."""
        return frozenset(c for c in self.owned if not connected or self.is_there(c))

    def is_there(self, client: int) -> bool:
        """Whether the board of a client is there now."""
        board = self.board_of(client)
        return board is not None and board.lost_since(client) is None

    def owner(self, client: int) -> str | None:
        """The name of the board that simulates a client."""
        return self.owned.get(client)

    def board_of(self, client: int) -> Board | None:
        """The board that simulates a client."""
        name = self.owned.get(client)
        return None if name is None else self.boards[name]


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
