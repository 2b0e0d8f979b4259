"""Turns of clients on a worker of a cluster: bytes in, bytes out.

The cluster's engine (Dask) calls the functions here by their import path. A worker keeps the
snapshots of the clients whose turns it did; they may be lost, because every snapshot also
goes back with its turn, and comes again with an order whose base is not here.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import queue
import shutil
import threading
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias

import msgspec

from common import VERSION
from common.disk.atomic import write_atomic
from common.disk.lock import FolderLock
from common.errors import FedbedError
from common.worker.forking import make_source
from common.worker.orders import EpochDone, JobDone, JobError, JobOrder, Prepare, Prepared
from common.worker.pool import ProcessPool
from common.worker.snapshot_store import SnapshotStore

KEPT_RUNS = 2  # that a worker is ready for at once
Report: TypeAlias = EpochDone | JobDone | JobError


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker must know about a run; without `shards` it chooses a place for them."""

    versions: dict[str, str]
    prepare: Prepare


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an order: its reports (none: its base is not here), and how many bytes
    of what follows are its snapshot."""

    reports: tuple[Report, ...] = ()
    snapshot_bytes: int = 0


class Turns(msgspec.Struct, frozen=True, kw_only=True):
    """What a task gives, before the snapshots."""

    worker: str
    turns: tuple[Turn, ...]


def versions() -> dict[str, str]:
    """What must be the same everywhere for the same bits."""
    return {"fedbed": VERSION, **{name: version(name) for name in ("numpy", "torch")}}


def unchanged(data: bytes) -> bytes:
    """The same bytes, as a task: the engine makes them again where they were lost."""
    return data


def ready(setup: bytes) -> bytes:
    """Get this worker ready for a run."""
    return msgspec.json.encode(_run_of(setup).prepared)


def do_turns(
    setup: bytes,
    orders: bytes,
    model: bytes,
    privates: Sequence[bytes],
    bases: Sequence[bytes],
) -> bytes:
    """Carry out orders one after another; `privates` and `bases` are their files, or empty."""
    run = _run_of(setup)
    wanted = msgspec.json.decode(orders, type=tuple[JobOrder, ...])
    files = zip(privates, bases, strict=True)
    done = [run.do(order, model, *own) for order, own in zip(wanted, files, strict=True)]
    turns = tuple(turn for turn, _ in done)
    head = msgspec.json.encode(Turns(worker=_address(), turns=turns))
    return b"".join([head, b"\n", *(snapshot for _, snapshot in done)])


def unpacked(data: bytes) -> tuple[str, list[tuple[Turn, bytes]]]:
    """The worker, and for each order its turn and snapshot, from what `do_turns` gave."""
    at = data.index(b"\n") + 1
    answer = msgspec.json.decode(memoryview(data)[: at - 1], type=Turns)
    found = []
    for turn in answer.turns:
        found.append((turn, data[at : at + turn.snapshot_bytes]))
        at += turn.snapshot_bytes
    return answer.worker, found


class _Run:
    """A run that this worker is ready for, or why it is not.

    Training has processes of its own, one for each thread of the worker: beside the engine's
    threads it would be several times slower.
    """

    def __init__(self, setup: Setup, folder: Path, shards: Path, size: int) -> None:
        self.folder = folder
        self._store = SnapshotStore(folder, setup.prepare.run)
        self._answers: dict[int, queue.SimpleQueue[Report]] = {}
        self._prepared: queue.SimpleQueue[Prepared] = queue.SimpleQueue()
        self._jobs = itertools.count()
        self._source = make_source(os.environ, keep=True)
        self._pool = ProcessPool(size, self._take, self._source)
        prepare = msgspec.structs.replace(
            setup.prepare,
            snapshots=str(folder),
            shards=setup.prepare.shards or str(shards),
        )
        if (mine := versions()) != setup.versions:
            problem = f"{listed(mine)} here, but {listed(setup.versions)} where it was started"
            self.prepared = Prepared(run=prepare.run, problem=problem)
            return
        with FolderLock(Path(prepare.shards), "a worker", wait=True):
            self._pool.prepare(prepare)
            self.prepared = self._prepared.get()

    def _take(self, report: Prepared | Report) -> None:
        """From threads of the pool."""
        if isinstance(report, Prepared):
            self._prepared.put(report)
        elif (answers := self._answers.get(report.job)) is not None:
            answers.put(report)

    def release(self) -> None:
        """This worker has other things to do."""
        self._pool.release()
        self._source.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def do(
        self, order: JobOrder, model: bytes, private: bytes, base: bytes
    ) -> tuple[Turn, bytes]:
        """One turn, and the snapshot that it made."""
        if self.prepared.problem:
            return _failed(order, self.prepared.problem), b""
        try:
            local = self._placed(order, model, private, base)
        except FedbedError as error:
            return _failed(order, str(error)), b""
        if local is None:
            return Turn(), b""
        reports = tuple(self._reports(local))
        if not isinstance(reports[-1], JobDone) or order.kind == "test":
            return Turn(reports=reports), b""
        snapshot = self._store.path(order.client, order.round).read_bytes()
        kept = {order.round} if order.base is None else {order.round, order.base}
        self._store.prune(order.client, frozenset(kept))
        return Turn(reports=reports, snapshot_bytes=len(snapshot)), snapshot

    def _reports(self, order: JobOrder) -> Iterator[Report]:
        job = next(self._jobs)
        answers = self._answers[job] = queue.SimpleQueue()
        self._pool.start(msgspec.structs.replace(order, job=job))
        try:
            while True:
                report = answers.get()
                yield msgspec.structs.replace(report, job=order.job)
                if not isinstance(report, EpochDone):
                    return
        finally:
            del self._answers[job]

    def _placed(
        self, order: JobOrder, model: bytes, private: bytes, base: bytes
    ) -> JobOrder | None:
        """The order with files of this worker; None if the snapshot it starts from is none."""
        if order.base is not None:
            start = self._store.path(order.client, order.base)
            if base:
                write_atomic(start, base, durable=False)
            elif not start.exists():
                return None
        download = self.folder / f"download-{order.round}.safetensors"
        if not download.exists():
            with _lock():
                for old in self.folder.glob("download-*"):
                    old.unlink(missing_ok=True)
                write_atomic(download, model, durable=False)
        own = self.folder / f"to-{order.client}.safetensors"
        if private:
            write_atomic(own, private, durable=False)
        return msgspec.structs.replace(
            order, download=str(download), private=str(own) if private else ""
        )


def _failed(order: JobOrder, problem: str) -> Turn:
    return Turn(reports=(JobError(job=order.job, problem=f"{_address()}: {problem}"),))


@cache
def _lock() -> threading.Lock:
    """Held while this worker gets ready for a run."""
    return threading.Lock()


@cache
def _runs() -> dict[str, _Run]:
    """The runs this process is ready for, the one that was used last at the end."""
    return {}


def _run_of(setup: bytes) -> _Run:
    from distributed import get_worker

    with _lock():
        runs, name = _runs(), hashlib.blake2b(setup, digest_size=8).hexdigest()
        run = runs.pop(name, None)
        if run is None or run.prepared.problem:
            while len(runs) >= KEPT_RUNS:
                runs.pop(next(iter(runs))).release()
            scratch, size = Path(get_worker().local_directory), get_worker().state.nthreads
            known = msgspec.json.decode(setup, type=Setup)
            shards = scratch.parent / "fedbed-shards"
            run = _Run(known, scratch / f"fedbed-{name}", shards, size)
        runs[name] = run
        return run


def _address() -> str:
    from distributed import get_worker

    return str(get_worker().address)


def listed(found: dict[str, str]) -> str:
    """Versions, for people."""
    return ", ".join(f"{name} {number}" for name, number in found.items())
