"""Starting and going on: from what a person asked for to a run that is on its way."""

from __future__ import annotations

import logging
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.access.address import Address
from common.config import Experiment
from common.data.datasets import require_dataset
from common.data.shards import has_shards
from common.disk.lock import FolderLock
from common.errors import ConfigError, FedbedError, StoreError, UsageError
from common.experiment.resolve import participants_of
from common.ids import check_name
from common.program.logs import HUMAN
from common.program.malloc import keep_buffers
from common.wire.paho_link import PahoLink
from fl_server.coordinator.conductor import Fact
from fl_server.coordinator.service import Coordinator, say_end_again
from fl_server.coordinator.simulate import Simulation
from fl_server.lab.fault_script import Script, parse_script
from fl_server.lab.faulty_lab import FaultyLab, recoveries
from fl_server.lab.lab import Lab, share_out
from fl_server.run.first_model import check_start
from fl_server.run.store import RunStore, create_run, free_name, has_run
from fl_server.run.tensorboard import EventFile
from fl_server.watch.screen import (
    Lines,
    Screen,
    Style,
    make_display,
    recovery_table,
    show_summary,
)
from fl_server.watch.web import server as web

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

WATCH_SECONDS = 1.0
RESTART_AFTER = 4  # looks at a killed board before it is started again

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Where runs are kept and how they are shown; a sweep shows its runs in its own way."""

    runs: Path
    style: Style = "screen"
    tensorboard: bool = False
    display: Callable[[str], Screen | Lines] | None = None
    web: web.PageAddress | None = None

    @property
    def shards(self) -> Path:
        """Where simulations keep their clients' shards."""
        return self.runs / ".shards"


@dataclass(frozen=True, slots=True)
class _Work:
    """Whoever is told of a run's facts."""

    display: Screen | Lines
    event_file: EventFile | None

    def observe(self, fact: Fact) -> None:
        self.display.observe(fact)
        if self.event_file is not None:
            self.event_file.observe(fact)


def find_or_create(options: RunOptions, experiment: Experiment, name: str | None) -> RunStore:
    """A new run, or the unfinished one of that name if it is of the same experiment."""
    wanted = name or free_name(options.runs, experiment.experiment.name)
    check_name(wanted, "--run")
    if not has_run(options.runs, wanted):
        check_start(experiment)
        return create_run(options.runs, wanted, experiment)
    store = RunStore(options.runs / wanted)
    if store.finished:
        raise UsageError(
            f"run {wanted!r} is finished, see {store.folder}; choose another --run"
        )
    if store.experiment() != experiment:
        raise UsageError(
            f"run {wanted!r} is unfinished and of another experiment ({store.folder}/"
            "experiment.toml); choose another --run, or go on with: fl-server resume "
            f"{wanted}"
        )
    return store


def find_run(options: RunOptions, name: str) -> RunStore:
    """The run of that name, to go on with."""
    folder = options.runs / name
    if not has_run(options.runs, name):
        known = sorted(path.parent.name for path in options.runs.glob("*/run.json"))
        listed = f"there are {', '.join(known[-8:])}" if known else "there is none"
        raise UsageError(f"no run {name!r} in {options.runs}; {listed}")
    return RunStore(folder)


def run(
    options: RunOptions,
    store: RunStore,
    address: Address,
    federation: str,
    *,
    credentials: Path | None = None,
) -> bool:
    """Coordinate a run over a broker; False if it was interrupted."""
    if store.finished:  # maybe killed before everybody had heard of it
        say_end_again(store, PahoLink(address), federation)
        Lines(store.folder.name).say(f"this run is finished; its results are in {store.folder}")
        return True
    with _at_work(options, store) as work:
        coordinator = Coordinator(
            store, PahoLink(address), federation=federation, observe=work.observe
        )
        with (
            _shown(options, address, federation, work.observe),
            _stopped_by_signals(coordinator.stop),
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
    clients = participants_of(store.experiment())
    folder = store.folder / "lab"
    check_boards(folder, clients, boards)
    with _at_work(options, store) as work:
        with Lab(folder, clients, boards, workers) as testbed:
            finished = _coordinate(testbed, options, store, work)
        if finished:
            keep_only_logs(folder)
    again = f"{store.folder}/experiment.toml --run {store.folder.name} --runs {options.runs}"
    how = f"fl-server lab {again} --boards {boards}"
    return _conclude(options, work, finished=finished, how=how)


def run_in(testbed: Lab, options: RunOptions, store: RunStore) -> bool:
    """A run on the boards of a lab that stays; False if it was interrupted."""
    with _at_work(options, store) as work:
        finished = _coordinate(testbed, options, store, work)
    return _conclude(options, work, finished=finished, how="the same command again")


def check_boards(folder: Path, clients: Sequence[int], boards: int) -> None:
    """Refuse to go on with another number of boards: clients would lose what they know."""
    earlier = len(list(folder.glob("b[0-9]*/daemon.json")))
    if earlier and earlier != min(boards, len(clients)):
        raise UsageError(f"{folder} was started with {earlier} boards; go on with as many")


def _coordinate(testbed: Lab, options: RunOptions, store: RunStore, work: _Work) -> bool:
    coordinator = Coordinator(
        store, PahoLink(testbed.address), federation="fl", observe=work.observe
    )
    with (
        _shown(options, testbed.address, "fl", work.observe),
        _watched(testbed, coordinator),
        _stopped_by_signals(coordinator.stop),
    ):
        return coordinator.run()


def faulty_lab(
    options: RunOptions, store: RunStore, script: Script, *, boards: int, workers: int
) -> bool:
    """The whole testbed here, while a script's faults happen to it; False if interrupted."""
    participants = participants_of(store.experiment())
    folder = store.folder / "lab"
    display = Lines(store.folder.name)
    with Lab(folder, participants, boards, workers, relayed=True) as testbed:
        troubled = FaultyLab(store, testbed, script, display.say)
        with (
            _shown(options, testbed.address, "fl", display.observe),
            _stopped_by_signals(troubled.stop),
        ):
            finished = troubled.run()
    if finished:
        keep_only_logs(folder)
    display.show(recovery_table(recoveries(troubled.recovered())))
    return finished


def read_script(path: Path, boards: int, clients: int) -> Script:
    """A fault file, checked."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    try:
        return parse_script(table, tuple(share_out(range(clients), boards)))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def require_data(options: RunOptions, experiment: Experiment) -> None:
    """Look for the dataset before a run folder is made, unless its shards are all there."""
    union, seed = experiment.evaluation.union_samples, experiment.experiment.seed
    clients = participants_of(experiment)
    if not has_shards(options.shards, experiment.data, seed, clients, union=union):
        require_dataset(experiment.data.dataset)


def simulate(options: RunOptions, store: RunStore, *, processes: int) -> bool:
    """The run in this process, without a broker."""
    with _at_work(options, store) as work:
        Simulation(
            store, processes=processes, shards=options.shards, observe=work.observe
        ).run()
        shutil.rmtree(store.folder / "clients", ignore_errors=True)
    return _conclude(options, work, finished=True, how="")


@contextmanager
def _at_work(options: RunOptions, store: RunStore) -> Iterator[_Work]:
    """The run's folder locked, its log open, a display on."""
    keep_buffers()
    with FolderLock(store.folder, f"a coordinator of run {store.folder.name!r}"):
        handler = logging.FileHandler(store.folder / "server.log")
        handler.setFormatter(logging.Formatter(HUMAN))
        root = logging.getLogger()
        root.addHandler(handler)
        root.setLevel(min(root.level, logging.INFO))
        event_file = EventFile(store.folder, time.time()) if options.tensorboard else None
        make = options.display or (lambda title: make_display(title, options.style))
        try:
            with make(store.folder.name) as display:
                yield _Work(display, event_file)
        finally:
            root.removeHandler(handler)
            handler.close()
            if event_file is not None:
                event_file.close()


@contextmanager
def _shown(
    options: RunOptions, address: Address, federation: str, observe: Callable[[Fact], None]
) -> Iterator[None]:
    """The run on a web page, if somebody wants that."""
    if options.web is None:
        yield
        return
    with web.serving(options.web, address, federation) as served:
        text = f"the page is at {served.url}"
        observe({"event": "web", "text": text, "time": time.time()})
        yield


@contextmanager
def _stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C asks politely, the second is Python's own."""
    previous: dict[int, Any] = {}  # what signal.signal takes and gives

    def ask(number: int, _frame: object) -> None:
        signal.signal(number, previous[number])
        stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        previous[number] = signal.signal(number, ask)
    try:
        yield
    finally:
        for caught, handler in previous.items():
            signal.signal(caught, handler)


@contextmanager
def _watched(testbed: Lab, coordinator: Coordinator) -> Iterator[None]:
    """Killed boards are started again, as on a real fleet; what gave up ends the run."""
    done = threading.Event()

    def watch() -> None:
        dead: dict[str, int] = {}
        while not done.wait(WATCH_SECONDS):
            try:
                testbed.check()
                for board in testbed.killed():
                    dead[board] = dead.get(board, 0) + 1
                    if dead[board] >= RESTART_AFTER:
                        del dead[board]
                        testbed.start_board(board)
            except (FedbedError, OSError) as error:
                coordinator.fail(StoreError(str(error)))
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def keep_only_logs(folder: Path) -> None:
    """What only boards need is deleted when nothing is left to do for them."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)


def _conclude(options: RunOptions, work: _Work, *, finished: bool, how: str) -> bool:
    display = work.display
    if not finished:
        log.info("interrupted")
        if options.display is None:
            display.say(f"stopped; nothing is lost. Go on with: {how}")
    elif options.display is None and options.style in ("screen", "plain"):
        show_summary(display.view)
    return finished
