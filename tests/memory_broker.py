"""An MQTT broker in memory, and links to it: no threads, no sockets, no real time.

It has the semantics that the services rely on: topic filters, retained messages (an empty one
deletes), sessions whose queue outlives a connection, redelivery of what was not confirmed, last
wills with a delay, one connection per session. `tests/test_memory_broker.py` compares it with
Mosquitto. Time passes by `MemoryBroker.pass_time` only, and everything a party does happens
while it is in `MemoryLink.receive`, so a test decides the order of all that happens.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from common.wire.link import Arrived, Down, Happening, Posted, Refused, Session, Streamed, Up
from common.wire.streams import Streams
from common.wire.topics import Packet

RECEIVE_AT_ONCE = 16  # messages that wait for a confirmation
RECONNECT_SECONDS = 1.0
WILL_DELAY_SECONDS = 2.0
TAKEN_OVER = "another process connected with the same identity"
Lost: TypeAlias = Literal["nothing", "queues", "everything"]


class Killed(BaseException):
    """Ends a party at the point where it was killed; nothing it owns is used any more."""


class Clock:
    """The time of everything that runs on one broker."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """A message for one session."""

    topic: str
    payload: bytes
    retained: bool


@dataclass(slots=True, eq=False)
class _Session:
    lasting: bool
    topics: tuple[str, ...] = ()
    queue: deque[Delivery] = field(default_factory=deque)
    unconfirmed: dict[int, Delivery] = field(default_factory=dict)
    link: MemoryLink | None = None
    will: Packet | None = None
    will_due: float = math.inf


class MemoryBroker:
    """Sessions, retained messages and the clock; its faults are methods."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.retained: dict[str, bytes] = {}
        self.published: list[Packet] = []
        self.running = True
        self.refuses = ""  # why nobody may connect
        self._sessions: dict[str, _Session] = {}
        self._marks = itertools.count(1)
        self._last: tuple[str, bytes] | None = None  # a retained topic and what was there

    def publish(self, packet: Packet) -> None:
        """Store a retained message, and put it into the queue of every session it matches."""
        self.published.append(packet)
        if packet.retain:
            self._last = (packet.topic, self.retained.get(packet.topic, b""))
            self._store(packet.topic, packet.payload)
        for session in self._sessions.values():
            if any(matches(topic, packet.topic) for topic in session.topics):
                session.queue.append(Delivery(packet.topic, packet.payload, retained=False))

    def pass_time(self, seconds: float) -> None:
        """Let time pass; wills that are due are published."""
        self.clock.now += seconds
        for name, session in tuple(self._sessions.items()):
            if session.will_due <= self.clock.now and session.will is not None:
                will, session.will, session.will_due = session.will, None, math.inf
                self.publish(will)
            if session.link is None and not session.lasting and session.will is None:
                del self._sessions[name]

    def queue(self, client_id: str) -> deque[Delivery]:
        """What waits for a session; a test may drop, repeat or move it."""
        session = self._sessions.get(client_id)
        return session.queue if session is not None else deque()

    # faults

    def stop(self) -> None:
        """Die: every connection is lost, and wills are never published."""
        self.running = False
        for session in self._sessions.values():
            if session.link is not None:
                session.link.lose(Down("connection refused"))
                self.disconnect(session.link)
            session.will, session.will_due = None, math.inf

    def start(self, lost: Lost = "nothing") -> None:
        """Come back; perhaps without the queues and the last retained message, or empty."""
        self.running = True
        if lost == "everything":
            self.retained.clear()
            self._sessions.clear()
        elif lost == "queues":
            for session in self._sessions.values():
                session.queue.clear()
            if self._last is not None:
                self._store(*self._last)

    def restart(self, lost: Lost = "nothing") -> None:
        """Die and come back."""
        self.stop()
        self.start(lost)

    def _store(self, topic: str, payload: bytes) -> None:
        if payload:
            self.retained[topic] = payload
        else:
            self.retained.pop(topic, None)

    # what links do

    def connect(self, link: MemoryLink, wanted: Session, will: Packet | None) -> None:
        """Attach a link to its session, new or as it was left; another link loses it."""
        session = self._sessions.get(wanted.client_id)
        if session is not None and session.link is not None:
            session.link.lose(Refused(TAKEN_OVER))
            self.disconnect(session.link)
        if session is None or not wanted.lasting:
            session = self._sessions[wanted.client_id] = _Session(wanted.lasting)
        session.topics, session.link = wanted.subscribe, link
        session.will, session.will_due = will, math.inf
        for topic, payload in self.retained.items():
            if any(matches(pattern, topic) for pattern in session.topics):
                session.queue.append(Delivery(topic, payload, retained=True))

    def disconnect(self, link: MemoryLink, *, will: bool = True, forget: bool = False) -> None:
        """Detach a link; what it did not confirm is delivered to the next one."""
        session = self._session_of(link)
        if session is None:
            return
        session.queue.extendleft(reversed(session.unconfirmed.values()))
        session.unconfirmed.clear()
        session.link = None
        session.will_due = self.clock.now + WILL_DELAY_SECONDS
        if not will:
            session.will = None
        if not session.lasting:
            session.topics = ()
            session.queue.clear()
        if forget:
            del self._sessions[link.session.client_id]

    def next_for(self, link: MemoryLink) -> Arrived | None:
        """The next message, unless too many wait for a confirmation."""
        session = self._session_of(link)
        if session is None or not session.queue or len(session.unconfirmed) >= RECEIVE_AT_ONCE:
            return None
        delivery, mark = session.queue.popleft(), next(self._marks)
        session.unconfirmed[mark] = delivery
        return Arrived(delivery.topic, delivery.payload, delivery.retained, mark)

    def confirm(self, link: MemoryLink, mark: int) -> None:
        """A message is done with; the mark of an older connection means nothing."""
        session = self._session_of(link)
        if session is not None:
            session.unconfirmed.pop(mark, None)

    def has_messages(self, link: MemoryLink) -> bool:
        """Whether something waits for a link."""
        session = self._session_of(link)
        return session is not None and bool(session.queue)

    def _session_of(self, link: MemoryLink) -> _Session | None:
        session = self._sessions.get(link.session.client_id)
        return session if session is not None and session.link is link else None


class MemoryLink:
    """A Link to a MemoryBroker.

    What it is given to send is on its way until `receive` takes it to the broker, one packet at
    a time; it is lost if the connection or the party is lost before.
    """

    name = "memory"

    def __init__(self, broker: MemoryBroker) -> None:
        self.session = Session("")
        self._broker = broker
        self._happenings: deque[Happening] = deque()
        self._outgoing: deque[tuple[int, Packet]] = deque()
        self._streams = Streams()
        self._numbers = itertools.count(1)
        self._connection = 0
        self._connected = False
        self._up = False
        self._retry_at = math.inf
        self._dead = False
        self._dies_at = math.inf
        self.operations = 0  # calls of a service

    # what the services call

    def open(self, session: Session) -> None:
        """Connect with the next `receive`."""
        self._use()
        self.session, self._retry_at = session, self._broker.clock.now

    def publish(self, packet: Packet) -> bool:
        """Put a message on its way; False while offline."""
        self._use()
        if self._up:
            self._send(packet)
        return self._up

    def stream(self, token: Hashable, packets: Iterator[Packet]) -> None:
        """Put many messages on their way, a few at a time; not while offline."""
        self._use()
        if self._up:
            self._streams.add(token, packets)
            self._pump()

    def receive(self, timeout: float) -> Happening | None:
        """The next thing that happened; None at once if there is nothing."""
        del timeout  # time is the broker's
        self._use()
        self._connect()
        while True:
            self._deliver()
            if self._happenings:
                return self._note(self._happenings.popleft())
            arrived = self._broker.next_for(self)
            if arrived is not None or not self._outgoing:
                return arrived

    def confirm(self, arrived: Arrived) -> None:
        """Tell the broker that a message is done with."""
        self._use()
        self._broker.confirm(self, arrived.mark)

    def post(self, item: object) -> None:
        """Put something in from elsewhere in the process; a dead one hears nothing."""
        self._happenings.append(Posted(item))

    def unread(self) -> dict[str, int]:
        """Everything here is QoS 1."""
        self._use()
        return {}

    def close(self, *, timeout: float = 1.0, forget_session: bool = False) -> None:
        """Send what is on its way, then leave without a will."""
        del timeout
        self._use()
        while self._outgoing:
            self._deliver()
        self._broker.disconnect(self, will=False, forget=forget_session)
        self._connected = self._up = False
        self._retry_at = math.inf

    # what tests call

    @property
    def busy(self) -> bool:
        """Whether `receive` would do or give something now."""
        due = self._retry_at <= self._broker.clock.now and self._broker.running
        waiting = self._happenings or self._outgoing
        return bool(due or waiting or self._broker.has_messages(self))

    def cut(self, reason: str = "connection lost") -> None:
        """Lose the connection; the link tries again after a second."""
        if self._connected:
            self.lose(Down(reason))
            self._broker.disconnect(self)

    def kill(self) -> None:
        """The process of this link is gone: no farewell, and nothing here works any more."""
        self._dead = True
        if self._connected:
            self._broker.disconnect(self)
        self._connected = self._up = False

    def kill_after(self, operations: int) -> None:
        """Die in the middle of what a service does: at its next call but so many."""
        self._dies_at = self.operations + operations

    def lose(self, happening: Down | Refused) -> None:
        """The connection is gone, and with it what was on its way."""
        self._connected = False
        self._outgoing.clear()
        self._retry_at = self._broker.clock.now + RECONNECT_SECONDS
        self._happenings.append(happening)
        if isinstance(happening, Refused):
            self._retry_at = math.inf

    # inside

    def _use(self) -> None:
        if self.operations >= self._dies_at:
            self.kill()
        self.operations += 1
        if self._dead:
            raise Killed

    def _connect(self) -> None:
        if self._connected or not self._broker.running:
            return
        if self._retry_at > self._broker.clock.now:
            return
        if self._broker.refuses:
            self.lose(Refused(self._broker.refuses))
            return
        self._connection += 1
        self._connected, self._retry_at = True, math.inf
        will = self.session.will(self._connection) if self.session.will is not None else None
        self._broker.connect(self, self.session, will)
        self._happenings.append(Up(self._connection))

    def _send(self, packet: Packet) -> int:
        number = next(self._numbers)
        if self._connected:
            self._outgoing.append((number, packet))
        return number

    def _pump(self) -> None:
        self._happenings.extend(Streamed(token) for token in self._streams.pump(self._send))

    def _deliver(self) -> None:
        if self._outgoing:
            number, packet = self._outgoing.popleft()
            self._broker.publish(packet)
            if self._streams.acknowledged(number):
                self._pump()

    def _note(self, happening: Happening) -> Happening:
        if isinstance(happening, Up | Down):
            self._up = isinstance(happening, Up)
            self._streams.forget()
        return happening


@functools.lru_cache(10_000)
def matches(pattern: str, topic: str) -> bool:
    """Whether a topic filter with `+` and `#` matches a topic."""
    wanted, levels = pattern.split("/"), topic.split("/")
    if wanted[-1] == "#":
        wanted.pop()
        levels = levels[: len(wanted)]
    return len(wanted) == len(levels) and all(
        want in {"+", level} for want, level in zip(wanted, levels, strict=True)
    )
