"""Everything together; a test chooses the next move, or the next fault."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from common.arrays import digest
from common.wire.chunks import cut
from common.wire.messages import (
    ClientMetrics,
    CurrentRound,
    Info,
    Message,
    Selected,
    TrainDetail,
    TrainEnd,
)
from common.wire.tensors import ModelMeta, encode_tensors
from common.wire.topics import Packet, packet, parse
from common.worker.snapshot_store import SnapshotStore
from fl_server.run.journal import read_records
from fl_server.run.store import RunStore
from tests.memory_broker import Delivery, Lost, MemoryBroker
from tests.model.parts import Setup
from tests.shells.parties import FEDERATION, Board, Party, Server
from tests.shells.setup import experiment_of, memory_root, new_run
from tests.some_sums import counted

OLD_RUN = "old.1"
AT_MOST_MOVES = 20_000
# what a line of metrics says about time and bytes, which differ when something is repeated
VARYING = {"seconds", "train_seconds", "aggregate_seconds", "bytes_up", "bytes_down", "time"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run has come to: its model, every line of its files, the state of every client."""

    finished: bool
    model: str
    lines: tuple[Mapping[str, Any], ...]
    counts: tuple[Mapping[str, Any], ...]
    states: Mapping[int, tuple[int, str]]


class World:
    """All parties, and the broker between them."""

    def __init__(self, setup: Setup, *, leftovers: bool = False) -> None:
        self.setup = setup
        self.folder = Path(tempfile.mkdtemp(dir=memory_root().name))
        self.broker = MemoryBroker()
        shutil.copytree(new_run(setup), self.folder / "run")
        self.server = Server(self.folder / "run", experiment_of(setup), self.broker)
        self.boards = [
            Board(index, clients, setup.workers, self.folder, self.broker)
            for index, clients in enumerate(setup.boards)
        ]
        self.parties: tuple[Party, ...] = (self.server, *self.boards)
        if leftovers:
            for item in from_old_coordinator(setup):
                self.broker.publish(item)

    def __enter__(self) -> World:
        return self

    def __exit__(
        self, _t: type[BaseException] | None, _e: BaseException | None, _b: TracebackType | None
    ) -> None:
        for party in self.parties:
            party.crash()
        shutil.rmtree(self.folder)

    def party(self, name: str) -> Party:
        return next(party for party in self.parties if party.name == name)

    def pass_time(self, seconds: float) -> None:
        self.broker.pass_time(seconds)
        for party in self.parties:
            party.tick()

    def outcome(self) -> Outcome:
        return outcome_of(self.folder / "run", self.boards)

    def run_until_quiet(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Do every move there is, fairly, until there is none any more or it is to stop."""
        idle = 0
        for party in itertools.cycle(self.parties):
            if idle == len(self.parties) or stop():
                return
            idle = 0 if party.move(party.moved) else idle + 1
            assert party.moved < AT_MOST_MOVES, "the system never gets quiet"

    def settle(self, seconds: int) -> None:
        """No more faults: every party that is not gone comes back, nothing is lost any more."""
        for _ in range(seconds):
            self.run_until_quiet()
            if self.server.finished:
                return
            self.pass_time(1.0)

    def disturb(self, choices: bytes) -> None:
        """Play what the bytes say: moves in any order, and faults of all kinds."""
        for kind, choice in zip(choices[::2], choices[1::2], strict=False):
            self._disturb(kind % 17, choice)

    def _disturb(self, kind: int, choice: int) -> None:  # noqa: C901 - one case per fault
        party, rest = self.parties[choice % len(self.parties)], choice // len(self.parties)
        match kind:
            case 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8:
                for number in range(1 + rest % 24):
                    party.move(choice + number)
            case 9:
                self.pass_time((0.3, 1.0, 3.1, 10.0, 40.0)[choice % 5])
            case 10:
                party.crash()
            case 11:
                self._disturb_queue(party, rest)
            case 12:
                lost: tuple[Lost, ...] = ("nothing", "queues", "everything")
                self.broker.restart(lost[choice % 3])
            case 13:
                party.link.cut()
            case 14:
                self._publish_something_old(choice)
            case 15:
                party.link.kill_after(rest % 8)
            case _:
                for board in self.boards:
                    board.pool.die()

    def _disturb_queue(self, party: Party, choice: int) -> None:
        """Lose, repeat or delay a message.

        Not a presence: the broker keeps those in order, and loses them only when it dies.
        """
        queue = self.broker.queue(party.link.session.client_id)
        movable = [i for i, item in enumerate(queue) if not is_presence(item)]
        if not movable:
            return
        at = movable[choice // 3 % len(movable)]
        item = queue[at]
        if choice % 3 != 1:
            del queue[at]
        if choice % 3 != 0:
            queue.append(item)

    def _publish_something_old(self, choice: int) -> None:
        """A message of an older run that was on its way for long; it is not stored."""
        items = (*from_old_coordinator(self.setup), *from_old_boards(self.setup))
        item = items[choice % len(items)]
        self.broker.publish(Packet(item.topic, item.payload, retain=False))


def outcome_of(run: Path, boards: Sequence[Board]) -> Outcome:
    store = RunStore(run)
    checkpoint = store.load_checkpoint()
    assert checkpoint is not None
    lines = read_records(store.folder / "metrics.jsonl")
    return Outcome(
        store.finished,
        digest(checkpoint[0]),
        tuple({k: v for k, v in line.items() if k not in VARYING} for line in lines),
        tuple(read_records(store.folder / "clients.jsonl")),
        dict(sorted(_states(boards, store.run).items())),
    )


def _states(boards: Sequence[Board], run: str) -> dict[int, tuple[int, str]]:
    found = {}
    for board in boards:
        snapshots = SnapshotStore(board.settings.state / "runs" / run, run)
        for client, rounds in snapshots.scan().items():
            if rounds:
                newest = max(rounds)
                found[client] = (newest, digest(snapshots.state(client, newest)))
    return found


def is_presence(item: Delivery) -> bool:
    return parse(FEDERATION, item.topic)[0].name == "connected"


def from_old_coordinator(setup: Setup) -> tuple[Packet, ...]:
    """What an older run has left in the broker."""
    number, clients = 2, setup.clients
    blob = encode_tensors({}, ModelMeta(run=OLD_RUN, round=number))
    experiment = msgspec.Raw(msgspec.json.encode(experiment_of(setup)))
    messages: tuple[Message, ...] = (
        TrainEnd(run=OLD_RUN, reason="finished"),
        TrainDetail(protocol=2, version="1", run=OLD_RUN, experiment=experiment),
        CurrentRound(
            run=OLD_RUN,
            round=number,
            incarnation=9,
            safe=(),
            measured=(),
            accepted=dict.fromkeys(clients, 1),
        ),
        Selected(run=OLD_RUN, round=number, clients=clients, testers=clients),
        *cut(blob, run=OLD_RUN, round_number=number, client=None),
    )
    return tuple(packet(FEDERATION, message) for message in messages)


def from_old_boards(setup: Setup) -> tuple[Packet, ...]:
    """What boards have sent for an older run."""
    messages: list[Message] = []
    for index, clients in enumerate(setup.boards):
        for client in clients:
            ids = {"run": OLD_RUN, "round": 2, "client": client}
            count = {"G": counted(1, 2)}
            messages += [
                msgspec.convert({**ids, "board": f"board-{index}", "state": "missing"}, Info),
                msgspec.convert({**ids, "own": count}, ClientMetrics),
                *cut(b"old update", run=OLD_RUN, round_number=2, client=client),
            ]
    return tuple(packet(FEDERATION, message) for message in messages)
