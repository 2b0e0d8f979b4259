"""Clients computed by a cluster: every turn is a task, with the bits of one machine.

The run folder here has every snapshot, as in any simulation; workers keep those of the clients
whose turns they did. A client's next turn goes where its snapshot is, unless that worker is
busy while another is free: then the snapshot goes with the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from common.disk.atomic import write_atomic
from common.disk.flusher import Flusher
from common.errors import FedbedError, UsageError
from common.experiment.resolve import keeps_state
from common.worker.orders import JobOrder, Prepare, Prepared
from common.worker.remote import Setup, do_turns, ready, unpacked, versions
from common.worker.snapshot_store import SnapshotStore
from fl_server.coordinator.dask_cluster import Cluster, cluster_at
from fl_server.coordinator.local_clients import (
    Answer,
    LocalClients,
    done,
    make_local_clients,
)

if TYPE_CHECKING:
    from distributed import Future

AHEAD = 1  # tasks that a worker has besides those it does
MOST_TESTS = 50  # in one task; tests take milliseconds


class DaskClients:
    """The clients of a run on a cluster (see `LocalClients`)."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._flusher = Flusher()
        self._homes: dict[int, str] = {}  # client -> the worker that has its snapshot
        self._running: dict[Future[bytes], tuple[str, tuple[JobOrder, ...]]] = {}

    def prepare(self, order: Prepare) -> Prepared:
        """Get all workers ready; those that come later get ready with their first turn."""
        self._store = SnapshotStore(Path(order.snapshots), order.run)
        self._durable = keeps_state(order.experiment)
        shards = str(Path(order.shards).absolute()) if self._cluster.local else ""
        prepare = msgspec.structs.replace(order, shards=shards, snapshots="")
        setup = Setup(versions=versions(), prepare=prepare)
        self._setup = self._cluster.keep(msgspec.json.encode(setup))
        workers = self._cluster.workers()
        prepared = Prepared(run=order.run)
        waiting = {self._cluster.start(ready, self._setup, worker=one): one for one in workers}
        try:
            while waiting:
                task = self._cluster.next_done()
                if task is None or task not in waiting:
                    continue
                worker = waiting.pop(task)
                data = self._cluster.result(task, f"getting {worker} ready")
                prepared = msgspec.json.decode(data, type=Prepared)
                if prepared.problem:
                    raise FedbedError(f"Dask worker {worker}: {prepared.problem}")
        finally:
            self._cluster.forget(list(waiting))
        return prepared

    def do(self, orders: Sequence[JobOrder]) -> Iterator[Answer]:
        """Do these jobs; reports come in any order."""
        waiting = _Waiting(orders)
        models: dict[str, Future[bytes]] = {}
        for path in {order.download for order in orders}:
            models[path] = self._cluster.keep(Path(path).read_bytes())
        while waiting or self._running:
            self._submit(waiting, models)
            task = self._cluster.next_done()
            if task is None or task not in self._running:
                continue
            _, given = self._running.pop(task)
            first = given[0]
            data = self._cluster.result(task, f"client {first.client} in round {first.round}")
            worker, turns = unpacked(data)
            for order, (turn, snapshot) in zip(given, turns, strict=True):
                if not turn.reports:  # its base is not there any more
                    self._homes.pop(order.client, None)
                    waiting.add(order)
                    continue
                if snapshot:
                    self._keep(order, worker, snapshot)
                for report in turn.reports:
                    yield order, done(order, report)

    def _keep(self, order: JobOrder, worker: str, snapshot: bytes) -> None:
        path = self._store.path(order.client, order.round)
        write_atomic(path, snapshot, durable=self._durable)
        if not self._durable:
            self._flusher.add(path)
        self._homes[order.client] = worker

    def _submit(self, waiting: _Waiting, models: dict[str, Future[bytes]]) -> None:
        workers = self._cluster.workers()
        busy = [worker for worker, _ in self._running.values()]
        most = max(1, min(MOST_TESTS, len(waiting) // (4 * max(1, sum(workers.values())))))
        for tasks in range(max(workers.values(), default=0) + AHEAD):
            for worker, threads in workers.items():
                if waiting and busy.count(worker) <= tasks < threads + AHEAD:
                    given = waiting.take(worker, self._homes, set(workers), most)
                    self._start(worker, given, models[given[0].download])

    def _start(self, worker: str, orders: tuple[JobOrder, ...], model: Future[bytes]) -> None:
        privates = [Path(one.private).read_bytes() if one.private else b"" for one in orders]
        bases = [self._base(worker, order) for order in orders]
        given = msgspec.json.encode(orders)
        task = self._cluster.start(
            do_turns, self._setup, given, model, privates, bases, worker=worker
        )
        self._running[task] = (worker, orders)

    def _base(self, worker: str, order: JobOrder) -> bytes:
        """The snapshot that an order starts from, if that worker may not have it."""
        if order.base is None or self._homes.get(order.client) == worker:
            return b""
        return self._store.path(order.client, order.base).read_bytes()

    def release(self) -> None:
        """The run is over."""
        self._cluster.forget(list(self._running))
        self._running.clear()
        self._homes.clear()

    def close(self) -> None:
        """There are no more runs; the cluster is its owner's."""


@contextmanager
def clients_for(processes: int, dask: str | None) -> Iterator[LocalClients]:
    """What computes the clients: this process, several, or a cluster."""
    if dask is None:
        with closing(make_local_clients(processes)) as clients:
            yield clients
        return
    if processes != 1:
        raise UsageError("--processes and --dask are two ways; choose one")
    with cluster_at(dask) as cluster:
        yield DaskClients(cluster)


class _Waiting:
    """Orders that no worker has yet: trainings first."""

    def __init__(self, orders: Sequence[JobOrder]) -> None:
        self._trainings = [order for order in orders if order.kind == "train"]
        self._tests = [order for order in orders if order.kind != "train"]

    def __len__(self) -> int:
        return len(self._trainings) + len(self._tests)

    def add(self, order: JobOrder) -> None:
        """An order that must be done again."""
        (self._trainings if order.kind == "train" else self._tests).append(order)

    def take(
        self, worker: str, homes: dict[int, str], there: set[str], most_tests: int
    ) -> tuple[JobOrder, ...]:
        """Orders for a worker: of clients that are at home there, else of those that are
        nowhere, else of another worker's."""
        orders = self._trainings or self._tests
        most = 1 if self._trainings else most_tests
        ranks = [_distance(homes.get(order.client), worker, there) for order in orders]
        least = min(ranks)
        near = [at for at, rank in enumerate(ranks) if rank == least][:most]
        chosen = tuple(orders[at] for at in near)
        for at in reversed(near):
            del orders[at]
        return chosen


def _distance(home: str | None, worker: str, there: set[str]) -> int:
    if home == worker:
        return 0
    return 2 if home in there else 1
