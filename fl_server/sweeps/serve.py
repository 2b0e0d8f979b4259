"""The coordinator that stays: it runs what the queue has, one experiment after another.

The name of a run is noted in the queue before its folder is made, and the end of an experiment
after that of its run: killed at any moment, the next one goes on with what was interrupted.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from common.access.address import Address
from common.config import Experiment
from common.data.dataset import find_data
from common.errors import FedbedError
from common.experiment.resolve import participants_of
from fl_server import launch
from fl_server.lab.lab import share_out
from fl_server.queue import Entry, Queue
from fl_server.reports.runs import read_events
from fl_server.run.find import check_free, find_or_create, find_run, free_name
from fl_server.run.run_record import read_record
from fl_server.run.store import RunStore, has_run
from fl_server.watch.facts import Interrupted, Stopping

LOOK_SECONDS = 0.5

log = logging.getLogger(__name__)

Write: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Place:
    """Where experiments are run; `check` refuses one before a folder is made for it."""

    check: Callable[[Experiment], None]
    run: Callable[[RunStore], bool]  # False: stopped or interrupted
    end_again: Callable[[RunStore], object]  # boards may have missed the end of a run


def on_broker(options: launch.RunOptions, address: Address, federation: str) -> Place:
    """On the boards that are connected to a broker."""

    def run(store: RunStore) -> bool:
        return launch.run(options, store, address, federation)

    return Place(lambda _: None, run, end_again=run)


def in_labs(options: launch.RunOptions, *, boards: int, workers: int) -> Place:
    """On this machine: a broker and boards for each experiment."""

    def check(experiment: Experiment) -> None:
        launch.require_local(options, experiment)
        find_data(experiment.data)

    def run(store: RunStore) -> bool:
        clients = participants_of(store.experiment())
        return launch.lab(options, store, share_out(clients, boards, workers))

    return Place(check, run, end_again=lambda _: None)


def serve(runs: Path, place: Place, write: Write) -> None:
    """Run whatever is in the queue or comes into it; a signal ends it (KeyboardInterrupt)."""
    queue, idle, told = Queue(runs), threading.Event(), False
    with queue.coordinated():
        while True:
            entry = queue.next()
            if entry is not None:
                told = False
                _do(queue, entry, runs, place, write)
                continue
            if not told:
                write(f"waiting for experiments: fl-server submit FILE.toml --runs {runs}")
                told = True
            idle.wait(LOOK_SECONDS)


def _do(queue: Queue, entry: Entry, runs: Path, place: Place, write: Write) -> None:
    """One experiment, from the queue to its end."""
    run = entry.run
    try:
        wanted = queue.wanted(entry.id)
        run = wanted.run or free_name(runs, wanted.experiment.experiment.name)
        if entry.state == "running" and _has_ended(runs, run):
            place.end_again(find_run(runs, run))  # killed before it could note that
            queue.mark(entry.id, "done", run)
            return
        place.check(wanted.experiment)
        if entry.state == "waiting":
            check_free(runs, run, wanted.experiment)
        queue.mark(entry.id, "running", run)
        again = "goes on with" if has_run(runs, run) else "starts"
        write(f"experiment {entry.id} of the queue: {again} run {run}")
        finished = place.run(find_or_create(runs, wanted.experiment, run, wanted.code))
        queue.mark(entry.id, "done" if finished else _stopped(runs / run), run)
        if not finished:
            write(f"run {run} was stopped; go on with: fl-server submit --again {run}")
    except FedbedError as error:
        queue.mark(entry.id, "failed", run, str(error))
        write(f"experiment {entry.id} of the queue failed: {error}")
    except Exception as error:  # a user's own algorithm or model must not end the coordinator
        log.exception("experiment %s of the queue", entry.id)
        queue.mark(entry.id, "failed", run, f"{type(error).__name__}: {error}")
        write(f"experiment {entry.id} of the queue failed: {type(error).__name__}: {error}")


def _has_ended(runs: Path, run: str) -> bool:
    return has_run(runs, run) and read_record(runs / run).finished


def _stopped(folder: Path) -> Literal["stopped"]:
    """Somebody asked this run to stop; if it was this process, it ends."""
    facts = read_events(folder / "events.jsonl")
    asked = [fact for fact in facts if isinstance(fact, Interrupted | Stopping)]
    if asked and isinstance(asked[-1], Stopping):
        return "stopped"
    raise KeyboardInterrupt
