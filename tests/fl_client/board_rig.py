"""A real daemon on a broker in memory, and the coordinator's side of the conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from common import VERSION
from common.access.address import Address
from common.config import DataSection, Experiment, ExperimentSection, ModelSection
from common.disk.identity import Identity, next_identity
from common.experiment.resolve import first_model
from common.program.systemd import Notifier
from common.wire.chunks import cut
from common.wire.messages import (
    PROTOCOL,
    Chunk,
    Connected,
    CurrentRound,
    Info,
    Message,
    Selected,
    TrainDetail,
    TrainEnd,
)
from common.wire.tensors import ModelMeta, UpdateMeta, decode_tensors, encode_tensors
from common.wire.topics import Packet, packet, parse, unpack
from common.worker.pool import Pool
from common.worker.snapshot_store import SnapshotStore
from fl_client.daemon import TICK_SECONDS, Daemon
from fl_client.settings import Settings
from tests.hashing_pool import HashingPool
from tests.memory_broker import MemoryBroker, MemoryLink

M = TypeVar("M", bound=Message)
RUN = "run.1"
EXPERIMENT = Experiment(
    experiment=ExperimentSection(rounds=3),
    model=ModelSection(name="dnn", hidden=1),
    data=DataSection(dataset="fmnist-mini", clients=4),
)
MOST_STEPS = 10_000


class Rig:
    """One board, its files, and everything it has published."""

    def __init__(
        self,
        folder: Path,
        broker: MemoryBroker | None = None,
        *,
        board: str = "attic",
        clients: tuple[int, ...] = (0, 1),
        workers: int = 1,
        record: Path | None = None,
    ) -> None:
        self.broker = broker if broker is not None else MemoryBroker()
        self.settings = Settings(
            address=Address("memory", 1883),
            board=board,
            clients=clients,
            state=folder / board,
            workers=workers,
            record=record,
        )
        self.start()

    def start(self, identity: Identity | None = None) -> None:
        """Start a daemon on the state folder."""
        self.settings.state.mkdir(parents=True, exist_ok=True)
        self.identity = identity or next_identity(self.settings.state)
        self.link = MemoryLink(self.broker)
        self.pool = HashingPool(self.settings.workers, self.link.post)
        self.use(self.pool)

    def use(self, pool: Pool) -> None:
        """Make the daemon, with this pool."""
        clock = self.broker.clock
        self.daemon = Daemon(self.settings, self.identity, self.link, pool, Notifier(), clock)
        self.daemon.open()

    def restart(self) -> None:
        """Kill the daemon, and start another one."""
        self.link.kill()
        self.start()

    # time and work

    def work(self, *, pool: bool = True) -> None:
        """Do everything there is to do without time passing."""
        for _ in range(MOST_STEPS):
            if self.link.busy:
                self.daemon.advance()
            elif not pool or not self.pool.work():
                return
        raise AssertionError("the daemon never gets quiet")

    def wait(self, seconds: float, *, pool: bool = True) -> None:
        """Let time pass, tick by tick."""
        for _ in range(round(seconds / TICK_SECONDS)):
            self.broker.pass_time(TICK_SECONDS)
            self.daemon.advance()
            self.work(pool=pool)

    # the coordinator's side

    def publish(self, *messages: Message) -> None:
        for message in messages:
            self.broker.publish(packet("fl", message))

    def open_round(
        self, round_number: int = 1, run: str = RUN, **changes: Iterable[int]
    ) -> None:
        """Publish all that boards need to train and test in a round."""
        self.publish(
            detail(run),
            current(round_number, run),
            selected(round_number, run, **changes),
            *weights(round_number, run),
        )

    # what the board has published

    def published(self, kind: type[M], since: int = 0) -> list[M]:
        return [message for message in self.messages(since) if isinstance(message, kind)]

    def messages(self, since: int = 0) -> list[Message]:
        """Messages of boards, in order; those of the coordinator are left out."""
        packets = (item for item in self.broker.published[since:] if item.payload)
        return [message for item in packets for message in board_messages(item)]

    @property
    def mark(self) -> int:
        return len(self.broker.published)

    def updates(self, since: int = 0) -> list[tuple[int, int, str]]:
        """(client, round, digest) of every update that was published."""
        return [
            (chunk.header.client or 0, chunk.header.round, chunk.header.digest)
            for chunk in self.published(Chunk, since)
        ]

    def presence(self) -> Connected:
        """What the broker keeps of this board."""
        topic = f"fl/client/connected/{self.settings.board}"
        _, message = unpack("fl", topic, self.broker.retained[topic])
        assert isinstance(message, Connected)
        return message

    def states(self, since: int = 0) -> list[tuple[int, str]]:
        return [(info.client, info.state) for info in self.published(Info, since)]

    def snapshot(self, client: int, round_number: int, run: str = RUN) -> Path:
        """The file of a snapshot."""
        store = SnapshotStore(self.settings.state / "runs" / run, run)
        return store.path(client, round_number)

    def work_until(self, condition: Callable[[], bool]) -> None:
        """Do one piece of work after another until something holds."""
        for _ in range(MOST_STEPS):
            if condition():
                return
            self.pool.work()
            self.work(pool=False)
        raise AssertionError("it never happens")


def board_messages(item: Packet) -> tuple[Message, ...]:
    row, _ = parse("fl", item.topic)
    return (unpack("fl", item.topic, item.payload)[1],) if row.source == "board" else ()


def detail(run: str = RUN, experiment: Experiment = EXPERIMENT) -> TrainDetail:
    return TrainDetail(
        protocol=PROTOCOL,
        version=VERSION,
        run=run,
        experiment=msgspec.Raw(msgspec.json.encode(experiment)),
    )


def current(round_number: int = 1, run: str = RUN, **changes: object) -> CurrentRound:
    message = CurrentRound(
        run=run, round=round_number, incarnation=1, safe=(), measured=(), accepted={}
    )
    return msgspec.structs.replace(message, **changes)


def selected(
    round_number: int = 1,
    run: str = RUN,
    clients: Iterable[int] = (0, 1),
    testers: Iterable[int] = (),
) -> Selected:
    return Selected(run=run, round=round_number, clients=(*clients,), testers=(*testers,))


def weights(round_number: int = 1, run: str = RUN) -> tuple[Chunk, ...]:
    model = {name: array + round_number for name, array in first_model(EXPERIMENT).items()}
    blob = encode_tensors(model, ModelMeta(run=run, round=round_number))
    return tuple(cut(blob, run=run, round_number=round_number, client=None))


def end(run: str = RUN) -> TrainEnd:
    return TrainEnd(run=run, reason="finished")


def content(chunk: Chunk) -> UpdateMeta:
    """What is said in an update that has one part."""
    return decode_tensors(bytes(chunk.body), UpdateMeta)[1]
