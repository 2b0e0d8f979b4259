"""Starting and going on: from what a person asked for to a run that is on its way."""

from __future__ import annotations

import logging
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.address import Address
from common.blueprint import participants_of
from common.config import Experiment
from common.datasets import require_dataset
from common.errors import ConfigError, FedbedError, StoreError, UsageError
from common.ids import check_name
from common.shards import has_shards
from common.storage import FolderLock
from fl_server.dashboard import Lines, Screen, make_display, recovery_table, show_summary
from fl_server.faults import Script, parse_script
from fl_server.faulty_lab import FaultyLab, recoveries
from fl_server.lab import Lab, share_out
from fl_server.service import Coordinator, say_end_again
from fl_server.simulate import Simulation
from fl_server.store import RunStore, create_run, free_name, has_run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

WATCH_SECONDS = 1.0
RESTART_AFTER = 4  # looks at a killed board before it is started again

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """Where runs are kept and how they are shown."""

    runs: Path
    plain: bool = False

    @property
    def shards(self) -> Path:
        """Where simulations keep their clients' shards."""
        return self.runs / ".shards"


def find_or_create(place: Place, experiment: Experiment, name: str | None) -> RunStore:
    """A new run, or the unfinished one of that name if it is of the same experiment."""
    wanted = name or free_name(place.runs, experiment.experiment.name)
    check_name(wanted, "--run")
    if not has_run(place.runs, wanted):
        return create_run(place.runs, wanted, experiment)
    store = RunStore(place.runs / wanted)
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


def find_run(place: Place, name: str) -> RunStore:
    """The run of that name, to go on with."""
    folder = place.runs / name
    if not has_run(place.runs, name):
        known = sorted(path.parent.name for path in place.runs.glob("*/run.json"))
        listed = f"there are {', '.join(known[-8:])}" if known else "there is none"
        raise UsageError(f"no run {name!r} in {place.runs}; {listed}")
    return RunStore(folder)


def run(place: Place, store: RunStore, address: Address, federation: str) -> bool:
    """Coordinate a run over a broker; False if it was interrupted."""
    if store.finished:  # maybe killed before everybody had heard of it
        say_end_again(store, address, federation)
        Lines(store.folder.name).say(f"this run is finished; its results are in {store.folder}")
        return True
    with _at_work(place, store) as display:
        coordinator = Coordinator(
            store, address, federation=federation, observe=display.observe
        )
        with _stopped_by_signals(coordinator.stop):
            finished = coordinator.run()
    return _conclude(
        display,
        finished=finished,
        how=f"fl-server resume {store.folder.name} --runs {place.runs} --broker {address}",
    )


def lab(place: Place, store: RunStore, *, boards: int, workers: int) -> bool:
    """The whole testbed here; False if it was interrupted."""
    experiment = store.experiment()
    folder = store.folder / "lab"
    earlier = len(list(folder.glob("b[0-9]*/daemon.json")))
    if earlier and earlier != min(boards, len(participants_of(experiment))):
        raise UsageError(f"run {store.folder.name!r} was started with --boards {earlier}")
    with _at_work(place, store) as display:
        with Lab(folder, participants_of(experiment), boards, workers) as testbed:
            coordinator = Coordinator(
                store, testbed.address, federation="fl", observe=display.observe
            )
            with _watched(testbed, coordinator), _stopped_by_signals(coordinator.stop):
                finished = coordinator.run()
        if finished:
            _keep_only_logs(folder)
    again = f"{store.folder}/experiment.toml --run {store.folder.name} --runs {place.runs}"
    how = f"fl-server lab {again} --boards {boards}"
    return _conclude(display, finished=finished, how=how)


def faulty_lab(store: RunStore, script: Script, *, boards: int, workers: int) -> bool:
    """The whole testbed here, while a script's faults happen to it; False if interrupted."""
    participants = participants_of(store.experiment())
    folder = store.folder / "lab"
    display = Lines(store.folder.name)
    with Lab(folder, participants, boards, workers, relayed=True) as testbed:
        troubled = FaultyLab(store, testbed, script, display.say)
        with _stopped_by_signals(troubled.stop):
            finished = troubled.run()
    if finished:
        _keep_only_logs(folder)
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


def require_data(place: Place, experiment: Experiment) -> None:
    """Look for the dataset before a run folder is made, unless its shards are all there."""
    union, seed = experiment.evaluation.union_samples, experiment.experiment.seed
    clients = participants_of(experiment)
    if not has_shards(place.shards, experiment.data, seed, clients, union=union):
        require_dataset(experiment.data.dataset)


def simulate(place: Place, store: RunStore, *, processes: int) -> bool:
    """The run in this process, without a broker."""
    with _at_work(place, store) as display:
        Simulation(
            store, processes=processes, shards=place.shards, observe=display.observe
        ).run()
        shutil.rmtree(store.folder / "clients", ignore_errors=True)
    return _conclude(display, finished=True, how="")


@contextmanager
def _at_work(place: Place, store: RunStore) -> Iterator[Screen | Lines]:
    """The run's folder locked, its log open, a display on."""
    with FolderLock(store.folder, f"a coordinator of run {store.folder.name!r}"):
        handler = logging.FileHandler(store.folder / "server.log")
        handler.setFormatter(
            logging.Formatter("%(asctime)s %(levelname).1s %(name)s: %(message)s")
        )
        root = logging.getLogger()
        root.addHandler(handler)
        root.setLevel(logging.INFO)
        try:
            with make_display(store.folder.name, plain=place.plain) as display:
                yield display
        finally:
            root.removeHandler(handler)
            handler.close()


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


def _keep_only_logs(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)


def _conclude(display: Screen | Lines, *, finished: bool, how: str) -> bool:
    if finished:
        show_summary(display.view)
    else:
        log.info("interrupted")
        display.say(f"stopped; nothing is lost. Go on with: {how}")
    return finished
