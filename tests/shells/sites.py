"""The world with sites: boards on brokers of their own, and a relay between them and the
coordinator's broker. The same parties, files and faults; only who is connected to what differs.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import msgspec

from common.config import AggregationSection, Experiment
from common.disk.identity import next_identity
from fl_server.run.aggregator import Aggregator
from fl_server.run.store import create_run
from fl_server.site.service import Relay
from fl_server.site.settings import Settings
from tests.memory_broker import Killed, Lost, MemoryBroker, MemoryLink
from tests.model.parts import Setup
from tests.shells.parties import Board, Party, Server
from tests.shells.setup import experiment_of, memory_root
from tests.shells.world import AT_MOST_MOVES, Outcome, is_presence, outcome_of


@dataclasses.dataclass(frozen=True)
class Sites:
    """A setup, and which of its boards (by number) are at each site."""

    setup: Setup
    sites: tuple[tuple[int, ...], ...]


def exact_experiment_of(setup: Setup) -> Experiment:
    exact = AggregationSection(arithmetic="exact")
    return msgspec.structs.replace(experiment_of(setup), aggregation=exact)


@functools.cache
def new_exact_run(setup: Setup) -> Path:
    """The folder of a run that was never started, to be copied."""
    folder = Path(tempfile.mkdtemp(dir=memory_root().name))
    experiment = exact_experiment_of(setup)
    store = create_run(folder, "new", experiment)
    Aggregator(store, experiment).records.close()
    return store.folder


class SiteRelay(Party):
    """A relay with a link to each of its two brokers."""

    service: Relay

    def __init__(
        self, index: int, clients: tuple[int, ...], folder: Path, uplink: MemoryBroker
    ) -> None:
        below = MemoryBroker()
        below.clock = uplink.clock
        super().__init__(f"site-{index}", below)
        self.uplink = uplink
        self.upper = MemoryLink(uplink)
        self.settings = Settings(site=self.name, clients=clients, state=folder / self.name)

    def start(self) -> None:
        self.upper = MemoryLink(self.uplink)
        super().start()

    def make_service(self) -> Relay:
        return Relay(
            self.settings,
            next_identity(self.settings.state),
            site=self.link,
            uplink=self.upper,
            clock=self.broker.clock,
        )

    def moves(self) -> list[Callable[[], None]]:
        if self.alive and (self.upper.busy or self.link.busy):
            return [self.advance]
        return [] if self.alive else [self.start]

    def crash(self) -> None:
        self.link.kill()
        self.upper.kill()
        if self.alive:
            self.alive = False
            with suppress(Killed):
                self.service.close()


class SitesWorld:
    """The coordinator, a relay for each site, and the boards; without sites, all are flat."""

    def __init__(self, of: Sites) -> None:
        setup = of.setup
        self.folder = Path(tempfile.mkdtemp(dir=memory_root().name))
        self.uplink = MemoryBroker()
        shutil.copytree(new_exact_run(setup), self.folder / "run")
        experiment = exact_experiment_of(setup)
        self.server = Server(self.folder / "run", experiment, self.uplink)
        self.relays: list[SiteRelay] = []
        brokers = dict.fromkeys(range(len(setup.boards)), self.uplink)
        for index, members in enumerate(of.sites):
            clients = tuple(sorted(c for board in members for c in setup.boards[board]))
            relay = SiteRelay(index, clients, self.folder, self.uplink)
            self.relays.append(relay)
            brokers |= dict.fromkeys(members, relay.broker)
        self.boards = [
            Board(index, clients, setup.workers, self.folder, brokers[index])
            for index, clients in enumerate(setup.boards)
        ]
        self.parties: tuple[Party, ...] = (self.server, *self.relays, *self.boards)

    def __enter__(self) -> SitesWorld:
        return self

    def __exit__(
        self, _t: type[BaseException] | None, _e: BaseException | None, _b: TracebackType | None
    ) -> None:
        for party in self.parties:
            party.crash()
        shutil.rmtree(self.folder)

    @property
    def brokers(self) -> list[MemoryBroker]:
        return [self.uplink, *(relay.broker for relay in self.relays)]

    def pass_time(self, seconds: float) -> None:
        self.uplink.pass_time(seconds)
        for relay in self.relays:
            relay.broker.pass_time(0.0)  # their clock is the same
        for party in self.parties:
            party.tick()

    def outcome(self) -> Outcome:
        return outcome_of(self.folder / "run", self.boards)

    def run_until_quiet(self) -> None:
        idle = 0
        for party in itertools.cycle(self.parties):
            if idle == len(self.parties):
                return
            idle = 0 if party.move(party.moved) else idle + 1
            assert party.moved < AT_MOST_MOVES, "the system never gets quiet"

    def settle(self, seconds: int) -> None:
        for _ in range(seconds):
            self.run_until_quiet()
            if self.server.finished:
                return
            self.pass_time(1.0)

    def disturb(self, choices: bytes) -> None:
        """Play what the bytes say: moves in any order, and faults of all kinds."""
        for kind, choice in zip(choices[::2], choices[1::2], strict=False):
            self._disturb(kind % 16, choice)

    def _disturb(self, kind: int, choice: int) -> None:
        party, rest = self.parties[choice % len(self.parties)], choice // len(self.parties)
        broker = self.brokers[choice % len(self.brokers)]
        match kind:
            case 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8:
                for number in range(1 + rest % 24):
                    party.move(choice + number)
            case 9:
                self.pass_time((0.3, 1.0, 3.1, 10.0, 40.0)[choice % 5])
            case 10:
                party.crash()
            case 11:
                self._disturb_queue(broker, choice)
            case 12:
                lost: tuple[Lost, ...] = ("nothing", "queues", "everything")
                broker.restart(lost[rest % 3])
            case 13:
                party.link.cut()
            case 14:
                if self.relays:
                    self.relays[choice % len(self.relays)].upper.cut()
            case _:
                party.link.kill_after(rest % 8)

    def _disturb_queue(self, broker: MemoryBroker, choice: int) -> None:
        """Lose, repeat or delay a message that is no presence."""
        links = [party.link for party in self.parties if party.broker is broker]
        links += [relay.upper for relay in self.relays if relay.uplink is broker]
        queue = broker.queue(links[choice % len(links)].session.client_id)
        movable = [i for i, item in enumerate(queue) if not is_presence(item)]
        if not movable:
            return
        at = movable[choice // 3 % len(movable)]
        item = queue[at]
        if choice % 3 != 1:
            del queue[at]
        if choice % 3 != 0:
            queue.append(item)

    def uplink_bytes(self, word: str) -> int:
        """How many bytes were published on topics of the coordinator's broker."""
        found = [len(p.payload) for p in self.uplink.published if word in p.topic]
        return sum(found)
