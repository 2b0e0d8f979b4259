"""What passes between the processes of the model, its broker, and what they have in common."""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from common.wire.messages import (
    PROTOCOL,
    ClientMetrics,
    Connected,
    CurrentRound,
    Info,
    Selected,
    Step,
    TrainDetail,
    TrainEnd,
)
from fl_server.rounds import state as r

if TYPE_CHECKING:
    from tests.model.world import World

RUN, OLD_RUN = "new.1", "old.1"
COORDINATOR = "coordinator"
PARTS = 2
AT_MOST_MOVES = 20_000
Move: TypeAlias = Callable[[], None]


def digest(*content: object) -> str:
    return hashlib.blake2b(repr(content).encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a model (`client` is None) or of an update."""

    run: str
    round_number: int
    client: int | None
    part: int
    content: str


@dataclass(frozen=True, slots=True)
class Private:
    """What one client needs for a step of a secured round; keys are names here."""

    run: str
    round_number: int
    client: int
    members: tuple[tuple[int, str], ...]
    sharers: tuple[int, ...] = ()
    survivors: tuple[int, ...] = ()

    @property
    def step(self) -> Step:
        if self.survivors:
            return "opening"
        return "updates" if self.sharers else "shares"


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a client contributes to a step of a secured round."""

    run: str
    round_number: int
    client: int
    step: Step
    content: str


_FromServer: TypeAlias = TrainDetail | CurrentRound | Selected | TrainEnd | Private
Said: TypeAlias = _FromServer | Connected | Info | ClientMetrics | Part | Contribution


def parts_of(run: str, round_number: int, client: int | None, content: str) -> Iterator[Part]:
    return (Part(run, round_number, client, part, content) for part in range(PARTS))


def detail_of(run: str) -> TrainDetail:
    return TrainDetail(protocol=PROTOCOL, version="1", run=run, experiment=msgspec.Raw(b"{}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is run, and on which boards."""

    boards: tuple[tuple[int, ...], ...] = ((0, 1), (2, 3))
    rounds: int = 2
    workers: int = 1
    coupled: bool = False
    rate: float = 1.0
    evaluate_every: int = 1
    grace: float = math.inf
    deadline: float = math.inf
    min_updates: int = 1
    start_with: int | None = None
    local: bool = False
    threshold: float = 0.0
    exact: bool = False
    extra: int = 0
    buffer: int = 0
    max_staleness: int = 2

    @property
    def clients(self) -> tuple[int, ...]:
        return tuple(sorted(client for board in self.boards for client in board))

    def policy(self) -> r.Policy:
        return r.Policy(
            run=RUN,
            seed=7,
            rounds=self.rounds,
            participants=self.clients,
            start_with=self.start_with or len(self.clients),
            rate=self.rate,
            grace=self.grace,
            deadline=self.deadline,
            min_updates=self.min_updates,
            evaluate_every=self.evaluate_every,
            local=self.local,
            threshold=self.threshold,
            extra=self.extra,
            buffer=self.buffer,
            max_staleness=self.max_staleness,
        )


class Broker:
    """Retained messages, a queue for every party (also while it is away), last wills."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.retained: dict[str, Said] = {}
        self.queues: dict[str, deque[Said]] = {name: deque() for name in names}
        self.wills: dict[str, Connected] = {}
        self._last: tuple[str, Said | None] = ("", None)

    def publish(self, message: Said) -> None:
        topic = _retained_topic(message)
        if topic is not None:
            self._last = (topic, self.retained.get(topic))
            self.retained[topic] = message
        for name, queue in self.queues.items():
            if reads(name, message):
                queue.append(message)

    def connect(self, name: str) -> None:
        """A session goes on: its will is not needed, and what is stored is said again."""
        self.wills.pop(name, None)
        stored = self.retained.values()
        self.queues[name].extend(message for message in stored if reads(name, message))

    def publish_wills(self) -> None:
        for name in tuple(self.wills):
            self.publish(self.wills.pop(name))

    def die(self, *, forget: bool) -> None:
        """What is on its way is lost, and the last message or the whole database."""
        topic, before = self._last
        if forget:
            self.retained.clear()
        elif before is not None:
            self.retained[topic] = before
        for queue in self.queues.values():
            queue.clear()
        self.wills.clear()


def _retained_topic(message: Said) -> str | None:
    match message:
        case Connected(board=board):
            return f"connected/{board}"
        case Part(client=None, part=part):
            return f"send_weights/{part}"
        case Private(client=client):
            return f"send_weights/to/{client}"
        case TrainDetail() | CurrentRound() | Selected() | TrainEnd():
            return type(message).__name__
        case _:
            return None


def reads(name: str, message: Said) -> bool:
    from_board = isinstance(message, Connected | Info | ClientMetrics | Contribution) or (
        isinstance(message, Part) and message.client is not None
    )
    return (name == COORDINATOR) == from_board


class Party(Protocol):
    """A process that can be moved, killed, cut off and started again."""

    name: str
    alive: bool

    def moves(self) -> list[Move]: ...
    def tick(self) -> None: ...
    def crash(self) -> None: ...
    def cut(self) -> None: ...


@dataclass(slots=True)
class Process:
    """Memory of a process: what it is about to do. All of it is lost in a crash."""

    up: bool = False
    handling: Said | None = None
    streams: dict[str, list[Part]] = field(default_factory=dict)


def pump(world: World, process: Process, token: str) -> bool:
    """Send one part of a stream; True when it was the last."""
    parts = process.streams[token]
    world.broker.publish(parts.pop(0))
    if parts:
        return False
    del process.streams[token]
    return True
