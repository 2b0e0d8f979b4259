"""A part of a run on a worker of a cluster: its folder comes, goes on for a while, goes back.

Dask calls the functions here by their import path.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import msgspec

from common.worker.children import Child, Source, death
from common.worker.forking import make_source
from common.worker.remote import listed, versions
from fl_server.sweeps.folders import packed, unpack
from fl_server.sweeps.slice_process import PROGRAM, REPORTS, STOP, Order, RoundDone, SliceDone


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """What to do: which run of which sweep, for how long."""

    sweep: str
    run: str
    shards: str
    seconds: float
    versions: dict[str, str]


def go_on(order: bytes, folder: bytes) -> bytes:
    """Go on with a run; what became of it, as a line of JSON, and its folder."""
    from distributed import get_worker

    wanted, worker = msgspec.json.decode(order, type=Slice), get_worker()
    scratch = Path(worker.local_directory)
    place = scratch / f"fedbed-{wanted.sweep}" / wanted.run
    place.parent.mkdir(parents=True, exist_ok=True)
    unpack(folder, place)
    part = Order(
        folder=str(place),
        shards=wanted.shards or str(scratch.parent / "fedbed-shards"),
        seconds=wanted.seconds,
    )
    try:
        done = _done(
            wanted, part, lambda at: worker.log_event(wanted.sweep, f"{wanted.run} {at}")
        )
        if done.finished:
            shutil.rmtree(place / "clients", ignore_errors=True)
        return msgspec.json.encode(done) + b"\n" + packed(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def stop(sweep: str) -> None:
    """Let the runs of a sweep end after their rounds, in this worker."""
    _running().stop(sweep)


def _done(wanted: Slice, part: Order, on_round: Callable[[int], object]) -> SliceDone:
    if (mine := versions()) != wanted.versions:
        text = f"{listed(mine)} here, but {listed(wanted.versions)} where it was started"
        return SliceDone(finished=False, problem=text)
    child = _source().start(PROGRAM)
    child.stdin.write(msgspec.json.encode(part) + b"\n")
    child.stdin.flush()
    done: SliceDone | None = None
    with _running().noted(wanted.sweep, child), child.stdout:
        for line in child.stdout:
            report = REPORTS.decode(line)
            if isinstance(report, RoundDone):
                on_round(report.round)
            else:
                done = report
    code = child.wait()
    problem = f"the process of the run died ({death(code)})"
    return done or SliceDone(finished=False, problem=problem)


class _Running:
    """The processes of this worker, and which sweeps shall end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopped: set[str] = set()
        self._children: dict[Child, str] = {}

    @contextlib.contextmanager
    def noted(self, sweep: str, child: Child) -> Iterator[None]:
        """While it runs, `stop` reaches it; after that it is over, whatever it does."""
        with self._lock:
            self._children[child] = sweep
        try:
            if sweep in self._stopped:
                _tell_to_stop(child)
            yield
        finally:
            with self._lock:
                del self._children[child]
            with contextlib.suppress(OSError):  # it has ended already
                child.stdin.close()

    def stop(self, sweep: str) -> None:
        """Those of this sweep, and those that are still to come."""
        with self._lock:
            self._stopped.add(sweep)
            children = [child for child, of in self._children.items() if of == sweep]
        for child in children:
            _tell_to_stop(child)


def _tell_to_stop(child: Child) -> None:
    with contextlib.suppress(OSError, ValueError):  # it has ended already
        child.stdin.write(STOP)
        child.stdin.flush()


@cache
def _running() -> _Running:
    return _Running()


@cache
def _source() -> Source:
    """What forks: everything is imported once for all runs of this worker."""
    return make_source(os.environ, keep=True)
