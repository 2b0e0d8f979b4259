"""What an outsider sees of a federation: where the run is, and who gave a sign of life.

Reads the topics like anybody else may; used where the coordinator itself may be dead.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from common.access.address import Address
from common.errors import ProtocolError
from common.wire.link import Arrived, Session, Up
from common.wire.messages import (
    COORDINATOR,
    Chunk,
    ClientMetrics,
    Connected,
    CurrentRound,
    Info,
    Message,
    Selected,
    TrainEnd,
)
from common.wire.paho_link import connect
from common.wire.topics import TOPICS, Packet, unpack


@dataclass(slots=True)
class Sighting:
    """When somebody was last heard, and last heard working."""

    heard: float = 0.0
    worked: float = 0.0


@dataclass(slots=True)
class Outlook:
    """The run as it looks from outside."""

    round: int = 0
    incarnation: int = 0
    reached: set[tuple[int, str]] = field(default_factory=set)
    owners: dict[int, str] = field(default_factory=dict)
    current: CurrentRound | None = None
    selected: Selected | None = None
    seen: dict[str, Sighting] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    ended: bool = False

    def note(self, message: Message, now: float) -> None:
        """Take one message, live or stored."""
        match message:
            case Connected():
                if message.board != COORDINATOR and message.connected and message.settled:
                    self.owners |= dict.fromkeys(message.clients, message.board)
                    if message.session[0] > self.starts.get(message.board, 0):
                        self.starts[message.board] = message.session[0]
                        self.seen[message.board] = Sighting()  # what was before does not count
                    self._heard(message.board, now)
            case CurrentRound():
                self._note_round(message, now)
            case Info():
                self._heard(message.board, now, worked=True)
                self.reached.add((message.round, "training"))
            case ClientMetrics():
                self._heard(self.owners.get(message.client, ""), now, worked=True)
            case Chunk(header=header) if header.client is not None:
                self._heard(self.owners.get(header.client, ""), now, worked=True)
                self.reached.add((header.round, "update"))
            case Selected():
                self.selected = message
            case TrainEnd():
                self.ended = True
            case _:
                pass

    def _note_round(self, message: CurrentRound, now: float) -> None:
        self.round = message.round
        self.incarnation = max(self.incarnation, message.incarnation)
        self.reached.add((message.round, "open"))
        # whoever waited for a moment of the last round that was too short to be seen
        self.reached |= {(message.round - 1, phase) for phase in ("training", "update", "safe")}
        if message.safe:
            self.reached.add((message.round, "safe"))
        self.current = message
        self._heard("server", now, worked=True)

    def _heard(self, name: str, now: float, *, worked: bool = False) -> None:
        sighting = self.seen.setdefault(name, Sighting())
        sighting.heard = now
        if worked:
            sighting.worked = now

    def has_work(self, board: str) -> bool:
        """Whether a board still has something to do in this round."""
        current, selected = self.current, self.selected
        if current is None or selected is None or current.round != selected.round:
            return True
        untrained = set(selected.clients).difference(current.safe)
        pending = untrained | set(selected.testers).difference(current.measured)
        return any(self.owners.get(client) == board for client in pending)


class Watcher:
    """An outlook fed by the broker, and a parrot that repeats what boards say."""

    def __init__(self, address: Address, federation: str = "fl") -> None:
        self.outlook = Outlook()
        self.connections = 0
        self._federation = federation
        topics = [row.pattern for row in TOPICS if row.name != "send_weights"]
        wanted = tuple(f"{federation}/{pattern}" for pattern in topics)
        session = Session(f"{federation}-watcher-{time.time_ns()}", wanted)
        self._link = connect(address, session)
        self._parrot: list[Packet] | None = None

    def look(self, timeout: float) -> None:
        """Take what has arrived."""
        happening = self._link.receive(timeout)
        while happening is not None:
            if isinstance(happening, Up):
                self.connections = happening.connection
                self.outlook.seen.clear()  # what was before does not count
            elif isinstance(happening, Arrived):
                self._take(happening)
                self._link.confirm(happening)
            happening = self._link.receive(0.0)

    def _take(self, arrived: Arrived) -> None:
        if not arrived.payload:
            return
        try:
            row, message = unpack(self._federation, arrived.topic, arrived.payload)
        except ProtocolError:
            return  # whoever it is meant for counts it
        if not arrived.retained:
            self.outlook.note(message, time.monotonic())
        if self._parrot is not None and row.source == "board" and not row.retained:
            self._parrot.append(Packet(arrived.topic, arrived.payload, retain=False))

    def start_parrot(self) -> None:
        """Remember what boards say from now on."""
        self._parrot = []

    def stop_parrot(self) -> int:
        """Say it all again, the last first; returns how many messages that were."""
        heard, self._parrot = self._parrot or [], None
        for item in reversed(heard):
            self._link.publish(item)
        return len(heard)

    def close(self) -> None:
        """Leave."""
        self._link.close(forget_session=True)
