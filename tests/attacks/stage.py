"""A run with one stolen account among its boards, attacked, killed and resumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from common.wire.link import Link
from common.wire.messages import Connected, Message, RoundLine
from common.wire.topics import connected_topic, packet, unpack
from fl_server.coordinator.service import Coordinator
from fl_server.reports.build import tables_of
from fl_server.reports.groups import group_runs
from fl_server.reports.output.render import FORMATS
from fl_server.reports.runs import read_run
from fl_server.rounds.state import Board, Policy
from fl_server.watch import facts
from tests.attacks.forges import honestly
from tests.attacks.forging import Forge
from tests.fl_server.coordinator.scripted import ScriptedBoard, Stage
from tests.memory_broker import MemoryLink

STOLEN = 3  # the client of the stolen account


class Thief(ScriptedBoard):
    """A board with a stolen account: what it sends is forged, and in all rounds if it may."""

    def __init__(self, link: Link, name: str, clients: Sequence[int], forge: Forge) -> None:
        super().__init__(link, name, clients)
        self._forge = forge
        self.fired = 0

    def presence(self) -> dict[str, Any]:
        """The fields of its honest claim."""
        _, claim = unpack("fl", connected_topic("fl", self.name), self._presence(1).payload)
        return msgspec.structs.asdict(claim)

    def send(self, message: Message) -> None:
        honest = packet("fl", message)
        for forged in self._forge(message):
            self.fired += forged != honest
            self.link.publish(forged)


class StolenStage(Stage):
    """Clients 0 to 2 are honest (unless `everybody` forges), client 3 is the thief's."""

    def __init__(self, runs: Path, forge: Forge, *, everybody: bool = False) -> None:
        super().__init__(runs)
        self.thief = Thief(MemoryLink(self.broker), "t", (STOLEN,), forge)
        others = forge if everybody else honestly
        self.boards = [
            self.thief,
            Thief(MemoryLink(self.broker), "a", (0, 1), others),
            Thief(MemoryLink(self.broker), "b", (2,), others),
        ]
        self.last: Coordinator  # the one that has ended the run

    def play_killed(self, *, after: int) -> str:
        """Attack, kill the coordinator some steps after the first forged message, resume."""
        coordinator, link = self.coordinator()
        left = after
        for _ in range(5_000):
            if self.thief.fired:
                left -= 1
            if left < 0:
                break
            drain(coordinator, link)
            self.turn(coordinator)
        assert self.thief.fired, "there was no attack"
        self.owners_before = {c: coordinator.conductor.state.owner(c) for c in range(4)}
        link.kill()
        resumed, link = self.coordinator()
        digest = self.play(resumed, lambda _step: drain(resumed, link))
        self.last = resumed
        self.close_files()
        return digest

    def turn(self, coordinator: Coordinator) -> None:
        """Everybody once."""
        coordinator.advance()
        for board in self.boards:
            board.step()
        self.broker.pass_time(0.05)

    def rejections(self) -> list[str]:
        """The texts of the events that name the stolen client."""
        rejected = [fact for fact in self.reported if isinstance(fact, facts.Rejected)]
        assert all(fact.client == STOLEN for fact in rejected)
        return [fact.text for fact in rejected]

    def presence(self) -> Connected:
        """The coordinator's presence as every viewer gets it."""
        topic = connected_topic("fl", "@coordinator")
        _, message = unpack("fl", topic, self.broker.retained[topic])
        assert isinstance(message, Connected)
        return message

    def policy(self) -> Policy:
        return self.last.conductor.policy

    def known_boards(self) -> Mapping[str, Board]:
        return self.last.conductor.state.boards

    def history(self) -> tuple[RoundLine, ...]:
        return self.presence().history


def drain(coordinator: Coordinator, link: MemoryLink) -> None:
    """Handle what has arrived, if it is much."""
    for _ in range(200):
        if not link.busy or not coordinator.advance():
            return


def tables_in(folder: Path) -> dict[str, str]:
    """All tables of a report about a run, in all formats."""
    tables = tables_of(group_runs([read_run(folder, None)]), None)
    return {f"{t.key}.{ending}": write(t) for t in tables for ending, write in FORMATS.items()}
