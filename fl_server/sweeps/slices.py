"""A part of a run on a worker of a cluster: its folder comes, goes on for a while, goes back.

Dask calls the functions here by their import path.
"""

from __future__ import annotations

import queue
import shutil
import time
from functools import cache
from pathlib import Path

import msgspec

from common.errors import FedbedError
from common.worker.remote import listed, versions
from fl_server.coordinator.local_clients import LocalClients, make_local_clients
from fl_server.coordinator.simulate import Simulation
from fl_server.run.store import RunStore
from fl_server.sweeps.folders import packed, unpack
from fl_server.watch import facts


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """What to do: which run of which sweep, for how long."""

    sweep: str
    run: str
    shards: str
    seconds: float
    versions: dict[str, str]


class SliceDone(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it; the folder follows."""

    finished: bool
    problem: str = ""


def go_on(order: bytes, folder: bytes) -> bytes:
    """Go on with a run; what became of it, as a line of JSON, and its folder."""
    from distributed import get_worker

    wanted = msgspec.json.decode(order, type=Slice)
    scratch = Path(get_worker().local_directory)
    place = scratch / f"fedbed-{wanted.sweep}" / wanted.run
    place.parent.mkdir(parents=True, exist_ok=True)
    unpack(folder, place)
    try:
        done = _done(wanted, place, scratch.parent / "fedbed-shards")
        return msgspec.json.encode(done) + b"\n" + packed(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def stop(sweep: str) -> None:
    """Let the runs of a sweep end after their rounds, in this worker."""
    _stopped().add(sweep)


def _done(wanted: Slice, place: Path, shards: Path) -> SliceDone:
    if (mine := versions()) != wanted.versions:
        text = f"{listed(mine)} here, but {listed(wanted.versions)} where it was started"
        return SliceDone(finished=False, problem=text)
    end = time.monotonic() + wanted.seconds
    try:
        clients = _idle().get_nowait()
    except queue.Empty:
        clients = make_local_clients(1, apart=True)
    try:
        finished = Simulation(
            RunStore(place),
            clients=clients,
            shards=Path(wanted.shards) if wanted.shards else shards,
            observe=_Progress(wanted).observe,
        ).run(pause=lambda: time.monotonic() > end or wanted.sweep in _stopped())
    except FedbedError as error:
        return SliceDone(finished=False, problem=str(error))
    except Exception as error:  # noqa: BLE001 - a user's algorithm may raise anything
        return SliceDone(finished=False, problem=f"{type(error).__name__}: {error}")
    finally:
        _idle().put(clients)
    if finished:
        shutil.rmtree(place / "clients", ignore_errors=True)
    return SliceDone(finished=finished)


class _Progress:
    """Reports every round that closes to who started the sweep."""

    def __init__(self, wanted: Slice) -> None:
        self._wanted = wanted

    def observe(self, fact: facts.Fact) -> None:
        from distributed import get_worker

        if isinstance(fact, facts.RoundClosed):
            get_worker().log_event(self._wanted.sweep, f"{self._wanted.run} {fact.round}")


@cache
def _stopped() -> set[str]:
    return set()


@cache
def _idle() -> queue.SimpleQueue[LocalClients]:
    """What trains, kept for the next run; as many as this worker has threads."""
    return queue.SimpleQueue()
