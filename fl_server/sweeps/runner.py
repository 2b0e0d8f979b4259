"""Runs a sweep: one run after another on the same boards, skipping what is finished."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from common.access.address import Address
from common.data.own.sources import is_own
from common.disk.lock import FolderLock
from common.errors import FedbedError, UsageError
from common.experiment.resolve import own_code, participants_of
from fl_server import launch
from fl_server.coordinator.local_clients import make_local_clients
from fl_server.lab.lab import Lab, check_boards, keep_only_logs, share_out
from fl_server.run.find import find_or_create
from fl_server.run.fleet import keep_fleet
from fl_server.run.store import RunStore, has_run
from fl_server.sweeps.grid import Planned
from fl_server.sweeps.screen import SweepDisplay, pace_of

LAB = ".lab"

Runner: TypeAlias = Callable[[launch.RunOptions, RunStore], bool]  # False: interrupted

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a sweep."""

    finished: tuple[Path, ...]
    failed: dict[str, str]
    interrupted: bool = False


def is_finished(runs: Path, planned: Planned) -> bool:
    """Whether a run of exactly these settings has ended; other settings are refused."""
    if not has_run(runs, planned.name):
        return False
    store = RunStore(runs / planned.name)
    if store.experiment() != planned.experiment:
        raise UsageError(
            f"{store.folder} is of another experiment than this sweep's run of that name; "
            "choose another --runs, or another experiment.name"
        )
    return store.finished


def run_all(
    options: launch.RunOptions,
    grid: Sequence[Planned],
    run: Runner,
    after: Callable[[], object] | None = None,
) -> Outcome:
    """Do what is not yet finished; a run that fails is reported, and the rest goes on.

    `after` is called whenever a run has ended.
    """
    finished = [planned for planned in grid if is_finished(options.runs, planned)]
    todo = [planned for planned in grid if planned not in finished]
    shown = SweepDisplay(pace_of(finished, todo), options.style)
    if finished:
        shown.write(f"{len(finished)} of {len(grid)} runs are finished already")
    failed: dict[str, str] = {}
    for planned in todo:
        shown.write(f"{planned.name}: {shown.where()}")
        try:
            store = find_or_create(options.runs, planned.experiment, planned.name, planned.code)
            if not run(replace(options, display=shown.display), store):
                return outcome_of(options, finished, failed, interrupted=True)
        except KeyboardInterrupt:
            return outcome_of(options, finished, failed, interrupted=True)
        except FedbedError as error:
            failed[planned.name] = str(error)
        except Exception as error:  # a user's own algorithm or model must not end the sweep
            log.exception("run %s", planned.name)
            failed[planned.name] = f"{type(error).__name__}: {error}"
        else:
            finished.append(planned)
        if planned.name in failed:
            shown.write(f"{planned.name} failed: {failed[planned.name]}")
        shown.count(ok=planned.name not in failed)
        if after is not None:
            after()
    shown.write(f"sweep: {shown.where()}")
    return outcome_of(options, finished, failed, interrupted=False)


def outcome_of(
    options: launch.RunOptions,
    finished: Sequence[Planned],
    failed: dict[str, str],
    *,
    interrupted: bool,
) -> Outcome:
    """What became of a sweep, with the folders of its runs."""
    folders = tuple(options.runs / planned.name for planned in finished)
    return Outcome(folders, failed, interrupted)


# where the runs are run


def on_broker(address: Address, federation: str) -> Runner:
    """On the boards that are connected to a broker."""
    return lambda options, store: launch.run(options, store, address, federation)


@contextmanager
def simulated(processes: int, fleet: Path | None = None) -> Iterator[Runner]:
    """On this machine, without a broker; what trains stays ready for the next run.

    `fleet` is the file of the fleet in the options; every run keeps a copy.
    """
    with closing(make_local_clients(processes)) as clients:

        def run(options: launch.RunOptions, store: RunStore) -> bool:
            if fleet is not None:
                keep_fleet(fleet, store.folder)
            return launch.simulate(options, store, clients)

        yield run


def _code_of(grid: Sequence[Planned]) -> Path | None:
    """The folder of users' code: boards have one."""
    folders = {
        planned.code
        for planned in grid
        if own_code(planned.experiment) or is_own(planned.experiment.data.dataset)
    }
    if len(folders) > 1:
        raise UsageError(
            f"the files of this sweep have code or data of their own in {len(folders)} folders;"
            " in a lab, put them into one"
        )
    return next(iter(folders), None)


@contextmanager
def in_lab(
    runs: Path, grid: Sequence[Planned], *, boards: int, workers: int
) -> Iterator[Runner]:
    """On boards of our own: the same for all runs, also when the sweep goes on later."""
    clients = sorted({c for planned in grid for c in participants_of(planned.experiment)})
    folder = runs / LAB
    with FolderLock(folder, "a sweep"):
        there = share_out(clients, boards, workers)
        check_boards(folder, there)
        with Lab(folder, there, code=_code_of(grid)) as testbed:
            yield lambda options, store: launch.run_in(testbed, options, store)
        if all(is_finished(runs, planned) for planned in grid):
            keep_only_logs(folder)
