"""PURE: policy, phases, events and actions of the round machine; see `machine.py`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

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
from fl_server.rounds.policy import Policy as Policy
from fl_server.rounds.steps import Sealing
from fl_server.rounds.wishes import Wish, Wished

REPEAT_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Board:
    """What is known of a board.

    `seen_in` is the last round in which it gave a sign of life, `last_message` when its last
    message came.
    """

    instance: str
    session: tuple[int, int]
    clients: tuple[int, ...]
    lost_at: float | None = None
    seen_in: int = 0
    last_message: float = 0.0


@dataclass(frozen=True, slots=True)
class Gathering:
    """Waiting for participants: before the first round, and for those a restarted coordinator
    has not met yet before its next one (no longer than `grace`); or paused."""

    since: float
    published: float = -math.inf  # while paused: that nothing more is wanted of boards


@dataclass(frozen=True, slots=True)
class Working:
    """A round is open; `sealing` is the step of a secured one."""

    round_number: int
    selected: tuple[int, ...]
    testers: tuple[int, ...]
    opened: float
    safe: frozenset[int] = frozenset()
    measured: frozenset[int] = frozenset()
    rejected: frozenset[int] = frozenset()
    failed: Mapping[int, float] = field(default_factory=dict)
    published: float = -math.inf
    repeated: float = -math.inf
    gap: float = REPEAT_SECONDS
    unpublished: bool = False
    waited: frozenset[int] = frozenset()
    weights_published: float = -math.inf
    sealing: Sealing | None = None

    @property
    def untrained(self) -> frozenset[int]:
        """Selected clients whose update is still to come."""
        train = frozenset(self.selected) if self.sealing is None else self.sealing.trainees
        return train - self.safe - self.rejected

    @property
    def unanswered(self) -> frozenset[int]:
        """Clients of which the step of a secured round wants an answer."""
        if self.sealing is None:
            return frozenset()
        return self.sealing.unanswered(self.selected) - self.rejected

    @property
    def untested(self) -> frozenset[int]:
        """Testers whose counts are still to come."""
        return frozenset(self.testers) - self.measured

    @property
    def pending(self) -> frozenset[int]:
        """All clients that the round waits for."""
        return self.untrained | self.untested | self.unanswered


@dataclass(frozen=True, slots=True)
class Closing:
    """The updates of a round are being aggregated."""

    round_number: int
    used: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """The run is over."""

    reason: str


Phase: TypeAlias = Gathering | Working | Closing | Finished


@dataclass(frozen=True, slots=True)
class State:
    """Everything the coordinator decides on; `started` is when this one began.

    `reported` are the clients whose boards have reported how much data of their own they have.
    """

    phase: Phase
    incarnation: int = 1
    done: int = 0
    boards: Mapping[str, Board] = field(default_factory=dict)
    accepted: Mapping[int, int] = field(default_factory=dict)
    started: float = -math.inf
    reported: frozenset[int] = frozenset()
    wish: Wish = "run"

    def registered(self, *, connected: bool = False) -> frozenset[int]:
        """Clients that some board simulates (`connected`: a board that is there now)."""
        boards = (b for b in self.boards.values() if b.lost_at is None or not connected)
        return frozenset(client for board in boards for client in board.clients)

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

    def _present_first(self) -> list[tuple[str, Board]]:
        return sorted(self.boards.items(), key=lambda item: item[1].lost_at is not None)


@dataclass(frozen=True, slots=True)
class Received:
    """A board's message arrived."""

    message: Connected | Info | ClientMetrics
    now: float


@dataclass(frozen=True, slots=True)
class Stored:
    """An update is on disk, complete and verified."""

    client: int
    round_number: int
    now: float


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


_Answer: TypeAlias = Received | Stored | Rejected | Uncountable | Answered | Strayed
Event: TypeAlias = _Answer | Aggregated | Reconnected | Wished | Tick
