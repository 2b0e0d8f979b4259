"""A run as its topics show it: where it is, and when each party last gave a sign of life.

For fault scripts, which go on while the coordinator itself is dead.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from common.access.address import Address
from common.wire.link import Down, Up
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
from common.wire.topics import TOPICS, Packet
from fl_server.watch.topic_reader import MessageReader, Received

_TOPICS = tuple(row for row in TOPICS if row.name != "send_weights")


@dataclass(slots=True)
class Sighting:
    """When a party last sent anything, and last sent something about its work."""

    seen: float = 0.0
    worked: float = 0.0


@dataclass(slots=True)
class Outlook:
    """The run as it is known from outside."""

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
                    self._note_sign(message.board, now)
            case CurrentRound():
                self._note_round(message, now)
            case Info():
                self._note_sign(message.board, now, worked=True)
                self.reached.add((message.round, "training"))
            case ClientMetrics():
                self._note_sign(self.owners.get(message.client, ""), now, worked=True)
            case Chunk(header=header) if header.client is not None:
                self._note_sign(self.owners.get(header.client, ""), now, worked=True)
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
        # phases of the last round that were too short to be seen
        self.reached |= {(message.round - 1, phase) for phase in ("training", "update", "safe")}
        if message.safe:
            self.reached.add((message.round, "safe"))
        self.current = message
        self._note_sign("server", now, worked=True)

    def _note_sign(self, name: str, now: float, *, worked: bool = False) -> None:
        sighting = self.seen.setdefault(name, Sighting())
        sighting.seen = now
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
    """An outlook kept up to date, and a recorder that can send again what boards have sent."""

    def __init__(self, address: Address, federation: str = "fl") -> None:
        self.outlook = Outlook()
        self.connections = 0
        self._reader = MessageReader(address, federation, _TOPICS)
        self._recorded: list[Packet] | None = None

    def look(self, timeout: float) -> None:
        """Take what has arrived."""
        for reading in self._reader.read(timeout):
            match reading:
                case Up(connection):
                    self.connections = connection
                    self.outlook.seen.clear()  # what was before does not count
                case Received():
                    self._take(reading)
                case Down():
                    pass

    def _take(self, received: Received) -> None:
        if not received.stored:
            self.outlook.note(received.message, time.monotonic())
        row = received.row
        if self._recorded is not None and row.source == "board" and not row.retained:
            self._recorded.append(received.packet)

    def start_recording(self) -> None:
        """Keep what boards send from now on."""
        self._recorded = []

    def repeat_recorded(self) -> int:
        """Send all of it again, the last first; returns how many messages that were."""
        recorded, self._recorded = self._recorded or [], None
        for packet in reversed(recorded):
            self._reader.publish(packet)
        return len(recorded)

    def close(self) -> None:
        """Leave."""
        self._reader.close()
