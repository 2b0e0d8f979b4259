"""Clients computed on this machine: in this process, or in several, with the same bits."""

from __future__ import annotations

import os
import queue
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from common.errors import FedbedError
from common.worker.forking import make_source
from common.worker.orders import (
    EpochDone,
    JobDone,
    JobError,
    JobOrder,
    Prepare,
    Prepared,
    Report,
)
from common.worker.pool import ProcessPool

if TYPE_CHECKING:
    from common.worker.executor import Executor

Answer: TypeAlias = tuple[JobOrder, JobDone | EpochDone]


class LocalClients(Protocol):
    """Does the jobs of the clients, of one run after another."""

    def prepare(self, order: Prepare) -> Prepared:
        """Get ready for a run, or raise."""

    def do(self, orders: Sequence[JobOrder]) -> Iterator[Answer]:
        """Do these jobs; reports come in any order."""

    def release(self) -> None:
        """The run is over."""

    def close(self) -> None:
        """There are no more runs."""


def make_local_clients(processes: int) -> LocalClients:
    """One process is this one."""
    return _Here() if processes == 1 else _Processes(processes)


class _Here:
    def __init__(self) -> None:
        self._executor: Executor | None = None

    def prepare(self, order: Prepare) -> Prepared:
        from common.worker.executor import Executor  # imports torch, which takes seconds

        self._executor = Executor()
        return _checked(self._executor.prepare(order))

    def do(self, orders: Sequence[JobOrder]) -> Iterator[Answer]:
        assert self._executor is not None, "nothing was prepared"
        for order in orders:
            epochs: list[EpochDone] = []
            report = self._executor.run(order, epochs.append)
            for epoch in epochs:
                yield order, epoch
            yield order, done(order, report)

    def release(self) -> None:
        self._executor = None

    def close(self) -> None:
        pass


class _Processes:
    def __init__(self, size: int) -> None:
        self._size = size
        self._reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self._source = make_source(os.environ, keep=True)
        self._pool = ProcessPool(size, self._reports.put, self._source)

    def prepare(self, order: Prepare) -> Prepared:
        self._pool.prepare(order)
        report = self._reports.get()
        assert isinstance(report, Prepared)
        return _checked(report)

    def do(self, orders: Sequence[JobOrder]) -> Iterator[Answer]:
        waiting = list(reversed(orders))
        running: dict[int, JobOrder] = {}
        self._start(waiting, running)
        while running:
            report = self._reports.get()
            if isinstance(report, EpochDone):
                yield running[report.job], report
            elif isinstance(report, JobDone | JobError):
                order = running.pop(report.job)
                self._start(waiting, running)  # it trains while this one is taken in
                yield order, done(order, report)

    def _start(self, waiting: list[JobOrder], running: dict[int, JobOrder]) -> None:
        while waiting and len(running) < self._size:
            order = waiting.pop()
            running[order.job] = order
            self._pool.start(order)

    def release(self) -> None:
        self._pool.release()
        while not self._reports.empty():  # of the run that was given up
            self._reports.get()

    def close(self) -> None:
        self._source.close()


def _checked(report: Prepared) -> Prepared:
    if report.problem:
        raise FedbedError(report.problem)
    return report


def done(order: JobOrder, report: JobDone | EpochDone | JobError) -> JobDone | EpochDone:
    """The report on an order, unless it failed."""
    if isinstance(report, JobError):
        raise FedbedError(f"client {order.client} in round {order.round}: {report.problem}")
    return report
