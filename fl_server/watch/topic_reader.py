"""Reads a federation's topics: the messages, and the facts that they add up to."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from common.access.address import Address
from common.errors import BrokerError, ProtocolError
from common.wire.link import Arrived, Down, Refused, Session, Up
from common.wire.messages import Chunk, Message
from common.wire.paho_link import connect
from common.wire.topics import TOPICS, Packet, Topic, unpack
from fl_server.watch import facts
from fl_server.watch.facts import Fact, Observer
from fl_server.watch.facts.making import stamped
from fl_server.watch.listener import Listener

log = logging.getLogger(__name__)

QUIET_SECONDS = 0.5  # without a message: then everything that was stored has arrived
SMALL_TOPICS = tuple(row for row in TOPICS if row.payload is not Chunk)


@dataclass(frozen=True, slots=True)
class Received:
    """A message and the topic that it came from; `stored`: it was there before we were."""

    row: Topic
    message: Message
    packet: Packet
    stored: bool


Reading: TypeAlias = Up | Down | Received


class MessageReader:
    """Messages of some topics of a federation; the broker keeps nothing for it."""

    def __init__(
        self, address: Address, federation: str, topics: tuple[Topic, ...] = SMALL_TOPICS
    ) -> None:
        self.address = address
        self._federation = federation
        wanted = tuple(f"{federation}/{row.pattern}" for row in topics)
        name = f"{federation}-watch-{secrets.token_hex(8)}"
        self._link = connect(address, Session(name, wanted, lasting=False))

    def read(self, timeout: float) -> Iterator[Reading]:
        """Wait for something, then take everything that has arrived; ends after `timeout`."""
        end = time.monotonic() + timeout
        happening = self._link.receive(timeout)
        while happening is not None:
            match happening:
                case Up() | Down():
                    yield happening
                case Refused(reason):
                    raise BrokerError(f"the broker at {self.address} refuses us: {reason}")
                case Arrived():
                    yield from self._unpacked(happening)
                    self._link.confirm(happening)
                case _:
                    pass
            happening = self._link.receive(0.0) if time.monotonic() < end else None

    def _unpacked(self, arrived: Arrived) -> Iterator[Received]:
        if not arrived.payload:
            return
        try:
            row, message = unpack(self._federation, arrived.topic, arrived.payload)
        except ProtocolError:
            return  # its addressee counts it
        if arrived.retained and not row.retained:
            return  # events are not stored: whoever stores them wants to fill readers
        packet = Packet(arrived.topic, arrived.payload, retain=False)
        yield Received(row, message, packet, stored=arrived.retained)

    def publish(self, packet: Packet) -> None:
        """Send a packet: for a fault script, which repeats what boards have sent."""
        self._link.publish(packet)

    def close(self) -> None:
        """Leave."""
        self._link.close(forget_session=True)


class TopicReader:
    """Facts of whatever runs in a federation."""

    def __init__(self, address: Address, federation: str, observe: Observer) -> None:
        self._observe = observe
        self._listener = Listener()
        self._failed = False
        self._reader = MessageReader(address, federation)

    def look(self, timeout: float) -> bool:
        """Wait for something and take everything that has arrived; False if it was nothing."""
        found = False
        for reading in self._reader.read(timeout):
            found = True
            self._take(reading)
        for fact in self._listener.tick(_now()):
            self._observe(fact)
        return found

    def look_around(self, patience: float) -> None:
        """Take what is stored, until nothing more arrives; BrokerError without a broker."""
        end = time.monotonic() + patience
        up = False
        while time.monotonic() < end:
            found = False
            for reading in self._reader.read(QUIET_SECONDS):
                found, up = True, up or isinstance(reading, Up)
                self._take(reading)
            if up and not found:
                return
        if not up:
            raise BrokerError(f"cannot reach the broker at {self._reader.address}")

    def close(self) -> None:
        """Leave."""
        self._reader.close()

    def __enter__(self) -> TopicReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, reading: Reading) -> None:
        for fact in self._facts(reading):
            self._observe(fact)

    def _facts(self, reading: Reading) -> list[Fact]:
        address = str(self._reader.address)
        match reading:
            case Up():
                self._listener.reconnected(_now())
                return [stamped(facts.BrokerUp(address), time.time())]
            case Down(reason):
                return [stamped(facts.BrokerDown(address, reason), time.time())]
            case Received():
                return self._understood(reading)

    def _understood(self, received: Received) -> list[Fact]:
        """The facts of a message; one that we fail to understand does not end a viewer."""
        try:
            return self._listener.receive(received.message, _now(), stored=received.stored)
        except ProtocolError:
            return []  # its addressee counts it
        except Exception:
            if not self._failed:
                log.exception("a message on %s is not shown", received.packet.topic)
            self._failed = True
            return []


def _now() -> float:
    return round(time.time(), 2)  # all times on the page are this short
