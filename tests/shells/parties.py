"""The processes of the world: each can be moved, killed, cut off and started again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeAlias

from common.access.address import Address
from common.config import Experiment
from common.disk.identity import next_identity
from common.program.systemd import Notifier
from fl_client.daemon import Daemon
from fl_client.settings import Settings
from fl_server.coordinator.service import Coordinator
from fl_server.run.store import RunStore
from tests.hashing_pool import HashingPool
from tests.memory_broker import Killed, MemoryBroker, MemoryLink

Move: TypeAlias = Callable[[], None]
FEDERATION = "fl"


class Service(Protocol):
    """What a daemon and a coordinator have in common."""

    def open(self) -> None: ...
    def advance(self) -> bool: ...
    def close(self) -> None: ...


class Party:
    """A process; `moved` counts what it did. Its files stay when it is killed."""

    def __init__(self, name: str, broker: MemoryBroker) -> None:
        self.name = name
        self.broker = broker
        self.alive = False
        self.moved = 0
        self.link = MemoryLink(broker)

    def start(self) -> None:
        self.link = MemoryLink(self.broker)
        self.service = self.make_service()
        self.alive = True
        self.service.open()

    def make_service(self) -> Service:
        raise NotImplementedError

    def moves(self) -> list[Move]:
        """What can happen next."""
        if not self.alive:
            return [self.start]
        return [self.advance] if self.link.busy else []

    def move(self, choice: int) -> bool:
        """Do one of the moves; False if there is none."""
        moves = self.moves()
        if not moves:
            return False
        self.moved += 1
        self._survive(moves[choice % len(moves)])
        return True

    def _survive(self, move: Move) -> None:
        try:
            move()
        except Killed:
            self.crash()

    def advance(self) -> None:
        self.service.advance()

    def tick(self) -> None:
        """Time has passed."""
        if self.alive:
            self._survive(self.advance)

    def crash(self) -> None:
        """Lose all memory; what the process had open is closed by the system."""
        self.link.kill()
        if self.alive:
            self.alive = False
            with suppress(Killed):
                self.service.close()


class Board(Party):
    """A daemon on a state folder of its own."""

    def __init__(
        self,
        index: int,
        clients: tuple[int, ...],
        workers: int,
        folder: Path,
        broker: MemoryBroker,
    ) -> None:
        super().__init__(f"board-{index}", broker)
        self.gone = False
        self.pool = HashingPool(workers, lambda _: None)
        self.settings = Settings(
            address=Address("memory", 1883),
            board=self.name,
            clients=clients,
            state=folder / self.name,
            workers=workers,
        )
        self.settings.state.mkdir(parents=True)

    def make_service(self) -> Daemon:
        self.pool = HashingPool(self.settings.workers, self.link.post)
        identity = next_identity(self.settings.state)
        return Daemon(
            self.settings, identity, self.link, self.pool, Notifier(), self.broker.clock
        )

    def moves(self) -> list[Move]:
        if self.gone:
            return []
        found = super().moves()
        if self.alive:
            found += [lambda i=i: self._work(i) for i in range(self.pool.pieces)]  # type: ignore[misc]
        return found

    def _work(self, index: int) -> None:
        self.pool.work(index)

    def die_for_good(self) -> None:
        """While the broker is there to notice."""
        self.broker.pass_time(2.0)
        if not self.alive:
            self.start()
        while self.link.busy and self.alive:
            self.move(0)
        self.crash()
        self.gone = True


class Server(Party):
    """A coordinator on a run's folder; closing a round is a move of its own."""

    def __init__(self, folder: Path, experiment: Experiment, broker: MemoryBroker) -> None:
        super().__init__("coordinator", broker)
        self.folder = folder
        self.experiment = experiment
        self._background: deque[Move] = deque()

    @property
    def finished(self) -> bool:
        return b'"finished":true' in (self.folder / "run.json").read_bytes()

    def make_service(self) -> Coordinator:
        self._background.clear()
        return Coordinator(
            RunStore(self.folder, self.experiment),
            self.link,
            federation=FEDERATION,
            observe=lambda _: None,
            background=self._background.append,
            clock=self.broker.clock,
        )

    def moves(self) -> list[Move]:
        if not self.alive and self.finished:
            return []
        found = super().moves()
        if self.alive and self._background:
            found.append(lambda: self._background.popleft()())
        return found

    def advance(self) -> None:
        if not self.service.advance():
            self.service.close()
            self.alive = False
