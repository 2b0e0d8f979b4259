"""The training process: orders come in as JSON lines on stdin, reports go out on stdout.

It is forked by `fork_server`, or started as a program. It ends when its stdin
does, so it never outlives its owner. Arrays travel through files, never through the pipe.
"""

from __future__ import annotations

import math
import os
import queue
import threading
import time
from typing import IO

import msgspec

from common.worker.orders import (
    ORDERS,
    Abandon,
    AbandonedError,
    EpochDone,
    JobOrder,
    Prepare,
    Report,
)

EPOCH_SECONDS = 0.1  # between two reports of epochs: nobody can follow shorter ones


class _Process:
    """Reads orders from stdin, carries them out and ends when stdin does."""

    def __init__(self, reports: IO[bytes]) -> None:
        self._reports = reports
        self._orders: queue.SimpleQueue[Prepare | JobOrder] = queue.SimpleQueue()
        self._abandoned: set[int] = set()
        self._abandoning = threading.Condition()
        self._epoch_reported = -math.inf

    def listen(self) -> None:
        with os.fdopen(0, "rb") as orders:
            for line in orders:
                order = ORDERS.decode(line)
                if isinstance(order, Abandon):
                    with self._abandoning:
                        self._abandoned.add(order.job)
                        self._abandoning.notify_all()
                else:
                    self._orders.put(order)
        os._exit(0)  # the owner is gone, and training must not continue without it

    def work(self) -> None:
        from common.worker.executor import (
            Executor,  # imports torch, which takes seconds; orders are read meanwhile
        )

        executor = Executor()
        while True:
            order = self._orders.get()
            if isinstance(order, Prepare):
                self._report(executor.prepare(order))
            else:
                self._report(executor.run(order, self._epoch_done, self._wait))

    def _wait(self, job: int, seconds: float) -> None:
        """A slowed job waits, unless it is given up meanwhile."""
        with self._abandoning:
            if self._abandoning.wait_for(lambda: job in self._abandoned, seconds):
                raise AbandonedError

    def _epoch_done(self, report: EpochDone) -> None:
        if report.job in self._abandoned:
            raise AbandonedError
        now = time.monotonic()
        if report.epoch == 1 or now >= self._epoch_reported + EPOCH_SECONDS:
            self._epoch_reported = now
            self._report(report)

    def _report(self, report: Report) -> None:
        self._reports.write(msgspec.json.encode(report) + b"\n")
        self._reports.flush()


def work() -> None:
    """Work until stdin ends. Stray prints of libraries go to stderr, not among the reports."""
    reports = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    process = _Process(reports)
    threading.Thread(target=process.listen, daemon=True).start()
    process.work()


if __name__ == "__main__":
    work()
