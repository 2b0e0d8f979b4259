"""Reads a federation's topics for somebody who watches: never weights, never a word said."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from common.access.address import Address
from common.errors import BrokerError, ProtocolError
from common.wire.link import Arrived, Down, Happening, Refused, Session, Up
from common.wire.messages import Chunk
from common.wire.paho_link import connect
from common.wire.topics import TOPICS, unpack
from fl_server.watch.listener import Fact, Listener

QUIET_SECONDS = 0.5  # without a message: then everything that was stored has come


def topics_to_watch(federation: str) -> tuple[str, ...]:
    """All topics but those that carry weights."""
    return tuple(f"{federation}/{row.pattern}" for row in TOPICS if row.payload is not Chunk)


class TopicReader:
    """Facts of whatever runs in a federation; the broker remembers nothing of it."""

    def __init__(
        self, address: Address, federation: str, observe: Callable[[Fact], None]
    ) -> None:
        self._address = address
        self._federation = federation
        self._observe = observe
        self._listener = Listener()
        name = f"{federation}-watch-{secrets.token_hex(8)}"
        session = Session(name, topics_to_watch(federation), lasting=False)
        self._link = connect(address, session)

    def look(self, timeout: float) -> bool:
        """Wait for something and take everything that has come; False if it was nothing."""
        end = time.monotonic() + timeout
        happening = self._link.receive(timeout)
        found = happening is not None
        while happening is not None:
            self._take(happening)
            happening = self._link.receive(0.0) if time.monotonic() < end else None
        for fact in self._listener.tick(round(time.time(), 2)):
            self._observe(fact)
        return found

    def look_around(self, patience: float) -> None:
        """Take what is stored; ends when nothing more comes, BrokerError if nothing ever."""
        end = time.monotonic() + patience
        up = False
        while time.monotonic() < end:
            happening = self._link.receive(QUIET_SECONDS)
            if happening is None and up:
                return
            if happening is not None:
                up = up or isinstance(happening, Up)
                self._take(happening)
        if not up:
            raise BrokerError(f"cannot reach the broker at {self._address}")

    def close(self) -> None:
        """Leave."""
        self._link.close(forget_session=True)

    def __enter__(self) -> TopicReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, happening: Happening) -> None:
        now = round(time.time(), 2)  # all times on the page are this short
        match happening:
            case Up():
                self._listener.reconnected(now)
                self._tell("broker_up", address=str(self._address))
            case Down(reason):
                self._tell("broker_down", address=str(self._address), text=reason)
            case Refused(reason):
                raise BrokerError(f"the broker at {self._address} refuses us: {reason}")
            case Arrived():
                self._hear(happening, now)
                self._link.confirm(happening)
            case _:
                pass

    def _tell(self, kind: str, **fields: object) -> None:
        self._observe({"event": kind, **fields, "time": time.time()})

    def _hear(self, arrived: Arrived, now: float) -> None:
        if not arrived.payload:
            return
        try:
            _, message = unpack(self._federation, arrived.topic, arrived.payload)
            facts = self._listener.hear(message, now, stored=arrived.retained)
        except ProtocolError:
            return  # whoever it is meant for counts it
        for fact in facts:
            self._observe(fact)
