"""A light board: the agent and the link of a board, without training, disk and threads."""

from __future__ import annotations

import functools
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.looped import Loop, LoopedLink
from common.access.address import Address
from common.arrays import Arrays
from common.errors import BrokerError
from common.wire.chunks import cut
from common.wire.link import Arrived, Down, Happening, Posted, Refused, Session, Streamed, Up
from common.wire.messages import (
    Chunk,
    ClientMetrics,
    Connected,
    CurrentRound,
    Info,
    Message,
    Selected,
    Sums,
    TrainDetail,
    TrainEnd,
)
from common.wire.presence import Presence, first_claim
from common.wire.tensors import ModelMeta, UpdateMeta, decode_tensors, encode_tensors
from common.wire.topics import (
    SEND_WEIGHTS,
    Packet,
    board_subscriptions,
    connected_topic,
    packet,
    unpack,
)
from fl_client.agent import machine as agent
from fl_client.agent import state as a
from fl_client.downloads import Downloads
from fl_client.outgoing import UpdateKey

FEDERATION = "fl"
WEIGHTS = f"{FEDERATION}/{SEND_WEIGHTS.pattern.removesuffix('+')}"


def _read(topic: str, payload: bytes) -> Message:
    part = topic.startswith(WEIGHTS)
    return unpack(FEDERATION, topic, payload)[1] if part else _read_small(topic, payload)


@functools.lru_cache(maxsize=16)
def _read_small(topic: str, payload: bytes) -> Message:
    """A message that all boards of this process get."""
    return unpack(FEDERATION, topic, payload)[1]


@dataclass(frozen=True, slots=True)
class Totals:
    """How it went for the boards of one process: when the last was connected, and how many
    updates were sent more than once."""

    connect_seconds: float
    again: int


class Shared:
    """What the boards of one process share: every model is put together and read once."""

    def __init__(self, folder: Path) -> None:
        self._downloads = Downloads(folder)
        self._sent: Counter[tuple[int, int]] = Counter()  # updates, by client and round
        self._began = self._connected = time.monotonic()

    @property
    def totals(self) -> Totals:
        """How it went so far."""
        again = self._sent.total() - len(self._sent)
        return Totals(self._connected - self._began, again)

    def note_connected(self) -> None:
        """A board has its first connection."""
        self._connected = time.monotonic()

    def add(self, chunk: Chunk) -> None:
        """Take one part."""
        self._downloads.add(chunk)

    def size(self, run: str, number: int) -> int:
        """How many bytes a model has."""
        return self._downloads.path(run, number).stat().st_size

    @functools.lru_cache(maxsize=2)  # noqa: B019 - there is one for every process
    def _arrays(self, run: str, number: int) -> Arrays:
        data = self._downloads.path(run, number).read_bytes()
        return decode_tensors(data, ModelMeta)[0]

    def update(self, run: str, number: int, client: int) -> Iterator[Packet]:
        """The model of a round as an update of a client; made when its turn comes."""
        self._sent[client, number] += 1
        meta = UpdateMeta(
            run=run,
            round=number,
            client=client,
            samples=1,
            steps=0,
            weights={"base": 1.0, "head": 1.0},
            loss=0.0,
        )
        blob = encode_tensors(self._arrays(run, number), meta)
        for chunk in cut(blob, run=run, round_number=number, client=client):
            yield packet(FEDERATION, chunk)


class LightBoard:
    """One board; its loop calls it when something has happened, and now and then."""

    def __init__(
        self, address: Address, loop: Loop, shared: Shared, name: str, clients: tuple[int, ...]
    ) -> None:
        self._name = name
        self._shared = shared
        self._policy = a.Policy(name, clients)
        self._state = a.State()
        self._parts: dict[str, set[int]] = {}  # of the last models, by their digests
        self._events: deque[a.Event] = deque()
        self._held: list[Message] = []  # until our claim is settled
        self._link = LoopedLink(address, loop, self._serve, self._tick)
        claim = first_claim(name, instance=name, starts=1, clients=clients)
        self._presence = Presence(FEDERATION, claim, self._link.publish)
        others = connected_topic(FEDERATION, "+")  # boards of a guarded broker read their own
        mine = connected_topic(FEDERATION, name)
        topics = tuple(
            mine if topic == others else topic
            for topic in board_subscriptions(FEDERATION, clients)
        )
        self._link.open(Session(f"light-{name}", topics, self._presence.will))

    def _serve(self) -> None:
        while (happening := self._link.receive(0.0)) is not None:
            self._take(happening)

    def _tick(self) -> None:
        if self._presence.tick():
            self._begin()
        self._feed(a.Tick(time.monotonic()))

    def _take(self, happening: Happening) -> None:
        match happening:
            case Up(connection):
                if connection == 1:
                    self._shared.note_connected()
                self._presence.connected(connection)
                self._feed(a.Reconnected(time.monotonic()))
            case Refused(reason):
                raise BrokerError(f"the broker refuses board {self._name}: {reason}")
            case Arrived(topic, payload):
                if payload:
                    self._hear(_read(topic, payload), stored=happening.retained)
                self._link.confirm(happening)
            case Streamed(token):
                assert isinstance(token, UpdateKey), "only updates are streamed"
                done = a.UpdateStreamed(token.client, token.round, time.monotonic())
                self._feed(done)
            case Down() | Posted():
                pass

    def _hear(self, message: Message, *, stored: bool = False) -> None:
        if isinstance(message, Connected):
            if self._presence.received(message, stored=stored):
                self._begin()
        elif not self._presence.settled:
            self._held.append(message)
        elif isinstance(message, Chunk):
            self._note_part(message)
        elif isinstance(message, TrainDetail | CurrentRound | Selected | TrainEnd):
            self._feed(a.Received(message, time.monotonic()))

    def _begin(self) -> None:
        held, self._held = self._held, []
        for message in held:
            self._hear(message)

    def _note_part(self, chunk: Chunk) -> None:
        header = chunk.header
        if header.digest not in self._parts:
            newest = [*self._parts.items()][-1:]
            self._parts = {**dict(newest), header.digest: {*range(header.parts)}}
        missing = self._parts[header.digest]
        if missing:
            self._shared.add(chunk)
        complete = missing == {header.part}
        missing.discard(header.part)
        now = time.monotonic()
        self._feed(a.PartReceived(header.run, header.round, complete, now))

    # what the agent decides

    def _feed(self, event: a.Event) -> None:
        self._events.append(event)
        if len(self._events) > 1:
            return  # whoever fed the first one goes on with this one
        while self._events:
            self._state, actions = agent.step(self._policy, self._state, self._events[0])
            for action in actions:
                self._perform(action)
            self._events.popleft()

    def _perform(self, action: a.Action) -> None:
        match action:
            case a.OpenRun(detail):
                self._feed(a.Opened(detail.run, {}, coupled=False, now=time.monotonic()))
            case a.StartJob(job):
                self._feed(self._done(job))
            case a.SendUpdate(client, number):
                packets = self._shared.update(self._run, number, client)
                self._link.stream(UpdateKey(client, number), packets)
            case a.Publish(message):
                self._link.publish(packet(FEDERATION, message))
            case _:
                pass  # nothing to cancel, to delete, or to keep secret

    @property
    def _run(self) -> str:
        assert self._state.work is not None, "only an open run has jobs"
        return self._state.work.run

    def _done(self, job: a.Job) -> a.Event:
        """A job is done as soon as it is started."""
        now = time.monotonic()
        if job.kind == "test":
            counts = {"G": Sums(samples=1, sums={"correct": (1.0,), "loss": (1.0,)})}
            metrics = ClientMetrics(
                run=self._run,
                round=job.round,
                client=job.client,
                own=counts,  # type: ignore[arg-type]
            )
            return a.Tested(job, metrics, now)
        info = Info(
            run=self._run,
            round=job.round,
            client=job.client,
            board=self._name,
            state="trained",
            seconds=0.0,
            samples=1,
            bytes=self._shared.size(self._run, job.round),
        )
        return a.Trained(job, info, now)
