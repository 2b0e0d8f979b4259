"""From what a person asked for to a run: over a broker, in a lab, or in this process."""

from __future__ import annotations

import functools
import logging
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from common.access.address import Address
from common.config import Experiment
from common.data.dataset import find_data
from common.data.shards import ShardSet
from common.disk.lock import FolderLock
from common.disk.recording import Recorder
from common.errors import UsageError
from common.experiment.resolve import participants_of
from common.program.logs import HUMAN, LineFormatter
from common.program.malloc import keep_buffers
from common.program.signals import stopped_by_signals
from common.wire.paho_link import PahoLink
from fl_server.coordinator.conductor import StartRecord
from fl_server.coordinator.local_clients import LocalClients
from fl_server.coordinator.sender import publish_end_again
from fl_server.coordinator.service import Coordinator
from fl_server.coordinator.simulate import Simulation
from fl_server.coordinator.virtual import VirtualSimulation
from fl_server.fleet.kinds import Fleet
from fl_server.lab.fault_script import Script
from fl_server.lab.faulty_lab import FaultyLab
from fl_server.lab.lab import Lab, check_boards, keep_only_logs
from fl_server.lab.restarts import restarting_boards
from fl_server.run.metrics.tensorboard import EventFile
from fl_server.run.provenance import record_machine
from fl_server.run.store import RunStore
from fl_server.watch import facts
from fl_server.watch.displays import Lines, Screen, Style, make_display, show_summary
from fl_server.watch.recovery import recoveries
from fl_server.watch.screen import recovery_table
from fl_server.watch.viewers import Viewers, without_failure
from fl_server.web.site import Site, shown_here, shown_live

log = logging.getLogger(__name__)
_DISPLAY = "the display"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Where runs are kept and how they are shown; a sweep shows its runs in its own way."""

    runs: Path
    style: Style = "screen"
    tensorboard: bool = False
    record: Path | None = None
    display: Callable[[str], Screen | Lines] | None = None
    web: Site | None = None
    data: Path | None = None  # the boards' own data, in a lab or a simulation
    fleet: Fleet | None = None  # what the boards are like, in a lab or a simulation

    @property
    def start_record(self) -> StartRecord | None:
        """How the events of a run are recorded, if they are."""
        if (path := self.record) is None:
            return None
        return lambda policy, state: Recorder(path, policy, state).write

    @property
    def shards(self) -> Path:
        """Where simulations keep their clients' shards."""
        return self.runs / ".shards"


@dataclass(frozen=True, slots=True)
class _Work:
    """Where the facts of a run go."""

    display: Screen | Lines
    viewers: Viewers

    def observe(self, fact: facts.Fact) -> None:
        self.viewers.observe(fact)


def run(
    options: RunOptions,
    store: RunStore,
    address: Address,
    federation: str,
    *,
    credentials: Path | None = None,
) -> bool:
    """Coordinate a run over a broker; False if it was interrupted."""
    if store.finished:  # perhaps killed before all boards had received it
        publish_end_again(store, PahoLink(address), federation)
        Lines(store.folder.name).write(
            f"this run is finished; its results are in {store.folder}"
        )
        return True
    with _at_work(options, store) as work:
        coordinator = Coordinator(
            store,
            PahoLink(address),
            federation=federation,
            observe=work.observe,
            record=options.start_record,
        )
        with (
            shown_live(options.web, address, federation, work.observe),
            stopped_by_signals(coordinator.stop),
        ):
            finished = coordinator.run()
    way = f"--credentials {credentials}" if credentials else f"--broker {address}"
    return _conclude(
        options,
        work,
        finished=finished,
        how=f"fl-server resume {store.folder.name} --runs {options.runs} {way}",
    )


def lab(options: RunOptions, store: RunStore, *, boards: int, workers: int) -> bool:
    """The whole testbed here; False if it was interrupted."""
    clients, folder = participants_of(store.experiment()), store.folder / "lab"
    check_boards(folder, clients, boards)
    with _at_work(options, store) as work:
        data, code = options.data, store.code
        with Lab(folder, clients, boards, workers, data=data, code=code) as testbed:
            finished = _coordinate(testbed, options, store, work)
        if finished:
            keep_only_logs(folder)
    again = f"{store.folder}/experiment.toml --run {store.folder.name} --runs {options.runs}"
    where = f" --data {options.data}" if options.data else ""
    how = f"fl-server lab {again} --boards {boards}{where}"
    return _conclude(options, work, finished=finished, how=how)


def run_in(testbed: Lab, options: RunOptions, store: RunStore) -> bool:
    """A run on the boards of a lab that stays; False if it was interrupted."""
    with _at_work(options, store) as work:
        finished = _coordinate(testbed, options, store, work)
    return _conclude(options, work, finished=finished, how="the same command again")


def _coordinate(testbed: Lab, options: RunOptions, store: RunStore, work: _Work) -> bool:
    testbed.make_shards(store.experiment())
    coordinator = Coordinator(
        store,
        PahoLink(testbed.address),
        federation="fl",
        observe=work.observe,
        record=options.start_record,
    )
    with (
        shown_live(options.web, testbed.address, "fl", work.observe),
        restarting_boards(testbed, coordinator.fail),
        stopped_by_signals(coordinator.stop),
    ):
        return coordinator.run()


def faulty_lab(
    options: RunOptions, store: RunStore, script: Script, *, boards: int, workers: int
) -> bool:
    """The whole testbed here, while a script's faults happen to it; False if interrupted."""
    participants = participants_of(store.experiment())
    folder = store.folder / "lab"
    display = Lines(store.folder.name)
    data, code = options.data, store.code
    own = Lab(folder, participants, boards, workers, relayed=True, data=data, code=code)
    with own as testbed:
        troubled = FaultyLab(store, testbed, script, display.write)
        with (
            shown_live(options.web, testbed.address, "fl", display.observe),
            stopped_by_signals(troubled.stop),
        ):
            finished = troubled.run()
    if finished:
        keep_only_logs(folder)
    display.show(recovery_table(recoveries(troubled.recovered())))
    return finished


def require_data(options: RunOptions, experiment: Experiment) -> None:
    """Look for the dataset before a run folder is made, unless its shards are all there."""
    if experiment.data.partition == "local":
        require_local(options, experiment)
    elif not ShardSet(options.shards, experiment).has(participants_of(experiment)):
        find_data(experiment.data)


def require_local(options: RunOptions, experiment: Experiment) -> None:
    """Refuse a lab or a simulation that would not find the data of its clients."""
    local = experiment.data.partition == "local"
    if local and options.data is None:
        raise UsageError(
            "data.partition is 'local': boards have the data; here, say where it is by "
            "--data FOLDER"
        )
    if not local and options.data is not None:
        raise UsageError(
            f"--data is {options.data}, but data.partition is {experiment.data.partition!r}; "
            "expected 'local'"
        )


def simulate(options: RunOptions, store: RunStore, clients: LocalClients) -> bool:
    """The run on this machine, without a broker; of a fleet, in virtual time."""
    fleet = options.fleet
    make = Simulation if fleet is None else functools.partial(VirtualSimulation, fleet=fleet)
    with _at_work(options, store) as work, shown_here(options.web, store, work.viewers):
        finished = make(
            store,
            clients=clients,
            shards=options.shards,
            observe=work.observe,
            record=options.start_record,
            data=options.data,
        ).run()
        if finished:
            shutil.rmtree(store.folder / "clients", ignore_errors=True)
    return _conclude(options, work, finished=finished, how="the same command again")


@contextmanager
def _at_work(options: RunOptions, store: RunStore) -> Iterator[_Work]:
    """The run's folder locked, its log open, a display on."""
    keep_buffers()
    with FolderLock(store.folder, f"a coordinator of run {store.folder.name!r}"):
        handler = logging.FileHandler(
            store.folder / "server.log", encoding="utf-8", errors="backslashreplace"
        )
        handler.setFormatter(LineFormatter(HUMAN))
        root = logging.getLogger()
        root.addHandler(handler)
        root.setLevel(min(root.level, logging.INFO))
        try:
            record_machine(store.folder)
            with _viewers(options, store) as work:
                yield work
        finally:
            root.removeHandler(handler)
            handler.close()


@contextmanager
def _viewers(options: RunOptions, store: RunStore) -> Iterator[_Work]:
    """A display, and an event file if one is wanted."""
    event_file = EventFile(store.folder, time.time()) if options.tensorboard else None
    make = options.display or (lambda title: make_display(title, options.style))
    display = make(store.folder.name)
    observers: dict[str, facts.Observer] = {_DISPLAY: display.observe}
    if event_file is not None:
        observers["TensorBoard's event file"] = event_file.observe
    with without_failure(_DISPLAY):
        display.__enter__()
    try:
        yield _Work(display, Viewers(observers))
    finally:
        with without_failure(_DISPLAY):
            display.__exit__()
        if event_file is not None:
            with without_failure("TensorBoard's event file"):
                event_file.close()


def _conclude(options: RunOptions, work: _Work, *, finished: bool, how: str) -> bool:
    if not finished:
        log.info("interrupted")
    if options.display is None and work.viewers.has(_DISPLAY):
        with without_failure(_DISPLAY):
            _show_end(options, work.display, finished=finished, how=how)
    return finished


def _show_end(
    options: RunOptions, display: Screen | Lines, *, finished: bool, how: str
) -> None:
    if not finished:
        display.write(f"stopped; nothing is lost. Go on with: {how}")
    elif options.style in ("screen", "plain"):
        show_summary(display.view)
