"""A connection to the broker as the services see it; MQTT itself is in `paho_link.py`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from common.wire.topics import Packet


@dataclass(frozen=True, slots=True)
class Up:
    """Connected and subscribed; `connection` counts the connections of this link from 1."""

    connection: int


@dataclass(frozen=True, slots=True)
class Down:
    """The connection is lost; the link goes on trying."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The broker does not want us, or another process took our identity: retrying is no use."""

    reason: str


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message; `retained`: it was stored before we subscribed. Must be confirmed."""

    topic: str
    payload: bytes = field(repr=False)
    retained: bool
    mark: int


@dataclass(frozen=True, slots=True)
class Posted:
    """Something that another thread of this process put in by `post`."""

    item: object


@dataclass(frozen=True, slots=True)
class Streamed:
    """The broker has acknowledged every part of a stream, which its owner named `token`."""

    token: Hashable


Happening: TypeAlias = Up | Down | Refused | Arrived | Streamed | Posted


@dataclass(frozen=True, slots=True)
class Session:
    """What a party wants from its connection.

    `will(n)` makes the last will of the n-th connection. With `lasting=False` the broker
    remembers nothing of us while we are away.
    """

    client_id: str
    subscribe: tuple[str, ...] = ()
    will: Callable[[int], Packet] | None = None
    lasting: bool = True


class Link(Protocol):
    """What the services need of a connection."""

    @property
    def name(self) -> str:
        """Where the broker is, for people."""

    def open(self, session: Session) -> None:
        """Connect, and stay connected; `Up` follows."""

    def publish(self, packet: Packet) -> bool:
        """Hand over one small message; False (and nothing happens) while offline."""

    def stream(self, token: Hashable, packets: Iterator[Packet]) -> None:
        """Send many large messages, a few at a time; `Streamed(token)` follows."""

    def receive(self, timeout: float) -> Happening | None:
        """The next thing that happened, or None after `timeout` seconds."""

    def confirm(self, arrived: Arrived) -> None:
        """Acknowledge a message to the broker."""

    def post(self, item: object) -> None:
        """Put something in from another thread; `receive` gives it as `Posted(item)`."""

    def unread(self) -> dict[str, int]:
        """How many messages per topic were dropped: not QoS 1, or a flood."""

    def close(self, *, timeout: float = 1.0, forget_session: bool = False) -> None:
        """Wait (within the timeout) for what was handed over, then disconnect; no will."""
