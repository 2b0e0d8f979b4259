"""Turns of clients on a worker of a cluster: bytes in, bytes out, no torch until one is done.

The cluster's engine (Dask) calls the functions here by their import path. A worker keeps the
snapshots of the clients whose turns it did; they may be lost, because every snapshot also
goes back with its turn, and comes again with an order whose base is not here.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from common import VERSION
from common.disk.atomic import write_atomic
from common.disk.lock import FolderLock
from common.errors import FedbedError
from common.worker.orders import EpochDone, JobDone, JobError, JobOrder, Prepare, Prepared
from common.worker.snapshot_store import SnapshotStore

if TYPE_CHECKING:
    from common.worker.executor import Executor

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
    with _lock():
        return msgspec.json.encode(_run_of(setup).prepared)


def do_turns(
    setup: bytes,
    orders: bytes,
    model: bytes,
    privates: Sequence[bytes],
    bases: Sequence[bytes],
) -> bytes:
    """Carry out orders one after another; `privates` and `bases` are their files, or empty."""
    done = []
    with _lock():
        run = _run_of(setup)
        wanted = msgspec.json.decode(orders, type=tuple[JobOrder, ...])
        for order, private, base in zip(wanted, privates, bases, strict=True):
            done.append(run.do(order, model, private, base))
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
    """A run that this worker is ready for, or why it is not."""

    def __init__(self, setup: Setup, folder: Path, shards: Path) -> None:
        from common.worker.executor import Executor  # imports torch, which takes seconds

        self.folder = folder
        self._executor: Executor = Executor()
        self._store = SnapshotStore(folder, setup.prepare.run)
        prepare = msgspec.structs.replace(
            setup.prepare,
            snapshots=str(folder),
            shards=setup.prepare.shards or str(shards),
        )
        if (mine := versions()) != setup.versions:
            problem = (
                f"{_listed(mine)} here, but {_listed(setup.versions)} where it was started"
            )
            self.prepared = Prepared(run=prepare.run, problem=problem)
        else:
            with FolderLock(Path(prepare.shards), "a worker", wait=True):
                self.prepared = self._executor.prepare(prepare)

    def do(
        self, order: JobOrder, model: bytes, private: bytes, base: bytes
    ) -> tuple[Turn, bytes]:
        reports: list[Report] = []
        try:
            local = self._placed(order, model, private, base)
        except FedbedError as error:
            return Turn(reports=(JobError(job=order.job, problem=str(error)),)), b""
        if local is None:
            return Turn(), b""
        last = self._executor.run(local, reports.append)
        if not isinstance(last, JobDone) or order.kind == "test":
            return Turn(reports=(*reports, last)), b""
        snapshot = self._store.path(order.client, order.round).read_bytes()
        kept = {order.round} if order.base is None else {order.round, order.base}
        self._store.prune(order.client, frozenset(kept))
        return Turn(reports=(*reports, last), snapshot_bytes=len(snapshot)), snapshot

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
            for old in self.folder.glob("download-*"):
                old.unlink()
            write_atomic(download, model, durable=False)
        own = self.folder / f"to-{order.client}.safetensors"
        if private:
            write_atomic(own, private, durable=False)
        return msgspec.structs.replace(
            order, download=str(download), private=str(own) if private else ""
        )


@cache
def _lock() -> threading.Lock:
    """Turns in one process come one after another: torch has one generator."""
    return threading.Lock()


@cache
def _runs() -> dict[str, _Run]:
    """The runs this process is ready for, the one that was used last at the end."""
    return {}


def _run_of(setup: bytes) -> _Run:
    runs, name = _runs(), hashlib.blake2b(setup, digest_size=8).hexdigest()
    run = runs.pop(name, None)
    if run is None or run.prepared.problem:
        while len(runs) >= KEPT_RUNS:
            shutil.rmtree(runs.pop(next(iter(runs))).folder, ignore_errors=True)
        scratch = _scratch()
        known = msgspec.json.decode(setup, type=Setup)
        run = _Run(known, scratch / f"fedbed-{name}", scratch.parent / "fedbed-shards")
    runs[name] = run
    return run


def _scratch() -> Path:
    from distributed import get_worker

    return Path(get_worker().local_directory)


def _address() -> str:
    from distributed import get_worker

    return str(get_worker().address)


def _listed(found: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in found.items())
