"""Clients computed on this machine: in this process, or in several, with the same bits."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias

from common.errors import FedbedError
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

Answer: TypeAlias = tuple[JobOrder, JobDone | EpochDone]


class LocalClients(Protocol):
    """Does the jobs of the clients, of one run after another."""

    def prepare(self, order: Prepare) -> None:
        """Get ready for a run, or raise."""

    def do(self, orders: Sequence[JobOrder]) -> Iterator[Answer]:
        """Do these jobs; reports come in any order."""

    def release(self) -> None:
        """The run is over."""

    def close(self) -> None:
        """There are no more runs."""


def make_local_clients(processes: int, *, apart: bool = False) -> LocalClients:
    """One process: this one, unless it must stay apart."""
    return _Here() if processes == 1 and not apart else _Processes(processes)


class _Here:
    def __init__(self) -> None:
        from common.worker.executor import Executor  # imports torch, which takes seconds

        self._executor = Executor()

    def prepare(self, order: Prepare) -> None:
        _check(self._executor.prepare(order))

    def do(self, orders: Sequence[JobOrder]) -> Iterator[Answer]:
        for order in orders:
            epochs: list[EpochDone] = []
            report = self._executor.run(order, epochs.append)
            for epoch in epochs:
                yield order, epoch
            yield order, done(order, report)

    def release(self) -> None:
        pass

    def close(self) -> None:
        pass


class _Processes:
    def __init__(self, size: int) -> None:
        self._size = size
        self._reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self._pool = ProcessPool(size, self._reports.put)

    def prepare(self, order: Prepare) -> None:
        self._pool.prepare(order)
        report = self._reports.get()
        assert isinstance(report, Prepared)
        _check(report)

    def do(self, orders: Sequence[JobOrder]) -> Iterator[Answer]:
        waiting = list(reversed(orders))
        running: dict[int, JobOrder] = {}
        while waiting or running:
            while waiting and len(running) < self._size:
                order = waiting.pop()
                running[order.job] = order
                self._pool.start(order)
            report = self._reports.get()
            if isinstance(report, EpochDone):
                yield running[report.job], report
            elif isinstance(report, JobDone | JobError):
                order = running.pop(report.job)
                yield order, done(order, report)

    def release(self) -> None:
        self._pool.release()

    def close(self) -> None:
        pass


def _check(report: Prepared) -> None:
    if report.problem:
        raise FedbedError(report.problem)


def done(order: JobOrder, report: JobDone | EpochDone | JobError) -> JobDone | EpochDone:
    """The report on an order, unless it failed."""
    if isinstance(report, JobError):
        raise FedbedError(f"client {order.client} in round {order.round}: {report.problem}")
    return report
