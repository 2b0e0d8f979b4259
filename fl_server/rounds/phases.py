"""PURE: what the round machine knows of a board, and the phases that a run is in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from common.values import Value
from fl_server.rounds.steps import Sealing

REPEAT_SECONDS = 3.0


class Board(Value, frozen=True):
    """What is known of a board.

    `seen_in` is the last round in which it gave a sign of life, `last_message` when its last
    message came. Of a site, `away` has since when the own boards of some clients are lost.
    """

    instance: str
    session: tuple[int, int]
    clients: tuple[int, ...]
    lost_at: float | None = None
    seen_in: int = 0
    last_message: float = 0.0
    away: Mapping[int, float] = msgspec.field(default_factory=dict)
    workers: int = 0  # how many clients it trains side by side; 0: unknown

    def lost_since(self, client: int) -> float | None:
        """Since when the board of a client is lost; None if it is there."""
        return self.lost_at if self.lost_at is not None else self.away.get(client)


@dataclass(frozen=True, slots=True)
class Known:
    """What the last round that used a client's update has told of it."""

    samples: int = 0
    loss: float | None = None
    seconds: float | None = None  # of its training


class Gathering(Value, frozen=True):
    """Waiting for participants: before the first round, and for those a restarted coordinator
    has not met yet before its next one (no longer than `grace`); or paused."""

    since: float
    published: float = -math.inf  # while paused: that nothing more is wanted of boards


class Working(Value, frozen=True):
    """A round is open; `sealing` is the step of a secured one.

    `started` has, in buffered rounds, for every selected client the round whose model it
    trains; elsewhere that is always this round's.
    """

    round_number: int
    selected: tuple[int, ...]
    testers: tuple[int, ...]
    opened: float
    safe: frozenset[int] = frozenset()
    measured: frozenset[int] = frozenset()
    rejected: frozenset[int] = frozenset()
    spared: frozenset[int] = frozenset()  # selected, and not needed any more
    failed: Mapping[int, float] = msgspec.field(default_factory=dict)
    published: float = -math.inf
    repeated: float = -math.inf
    gap: float = REPEAT_SECONDS
    unpublished: bool = False
    waited: frozenset[int] = frozenset()
    weights_published: float = -math.inf
    sealing: Sealing | None = None
    started: Mapping[int, int] = msgspec.field(default_factory=dict)

    def start_of(self, client: int) -> int:
        """The round whose model a client trains."""
        return self.started.get(client, self.round_number)

    @property
    def older(self) -> dict[int, int]:
        """Clients that train an older model than this round's, and of which round."""
        return {c: at for c, at in self.started.items() if at != self.round_number}

    @property
    def untrained(self) -> frozenset[int]:
        """Selected clients whose update is still to come."""
        train = frozenset(self.selected) if self.sealing is None else self.sealing.trainees
        return train - self.safe - self.rejected

    def wants_update(self, client: int) -> bool:
        """Whether this client is one of them."""
        train = self.selected if self.sealing is None else self.sealing.trainees
        return client in train and client not in self.safe and client not in self.rejected

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


class Closing(Value, frozen=True):
    """The updates of a round are being aggregated."""

    round_number: int
    used: tuple[int, ...]
    started: Mapping[int, int] = msgspec.field(default_factory=dict)


class Finished(Value, frozen=True):
    """The run is over."""

    reason: str


Phase: TypeAlias = Gathering | Working | Closing | Finished
