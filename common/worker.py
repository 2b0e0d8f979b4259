"""The training process: orders come in as JSON lines on stdin, reports go out on stdout.

The only process on a board that imports torch. It ends when its stdin does, so it never
outlives whoever started it. Arrays travel through files, never through the pipe.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import IO, TypeAlias

import msgspec

from common.config import Experiment
from common.errors import FedbedError
from common.messages import ClientMetrics


class Prepare(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Get ready for a run: import, make the shards, build the model."""

    run: str
    experiment: Experiment
    shards: str
    steps: str
    clients: tuple[int, ...]


class Turn(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Train or test one client."""

    job: int
    kind: str
    client: int
    round: int
    base: int | None
    download: str


class Abandon(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Nobody needs this job any more."""

    job: int


class Prepared(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Ready for the run, or why not."""

    run: str
    problem: str = ""


class EpochDone(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A training has finished an epoch."""

    job: int
    epoch: int
    epochs: int
    loss: float | None


class TurnDone(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A job is done; a training's step is on disk, a test's counts are here."""

    job: int
    seconds: float
    loss: float | None = None
    samples: int = 0
    bytes: int = 0
    metrics: ClientMetrics | None = None


class TurnFailed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A job is not done; no problem: it was abandoned."""

    job: int
    problem: str


Order: TypeAlias = Prepare | Turn | Abandon
Report: TypeAlias = Prepared | EpochDone | TurnDone | TurnFailed


class _AbandonedError(Exception):
    pass


class _Worker:
    def __init__(self, reports: IO[bytes]) -> None:
        from common.workbench import Workbench  # imports torch, which takes seconds

        self._make_bench = Workbench
        self._bench: Workbench | None = None
        self._problem = "nothing was prepared"
        self._reports = reports
        self._orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._abandoned: set[int] = set()

    def read_orders(self) -> None:
        for line in sys.stdin.buffer:
            order = msgspec.json.decode(line, type=Order)
            if isinstance(order, Abandon):
                self._abandoned.add(order.job)
            else:
                self._orders.put(order)
        os._exit(0)  # whoever started us is gone, and training must not go on without it

    def run(self) -> None:
        while True:
            order = self._orders.get()
            if isinstance(order, Prepare):
                self._report(self._prepare(order))
            elif isinstance(order, Turn):
                self._report(self._turn(order))

    def _report(self, report: Report) -> None:
        self._reports.write(msgspec.json.encode(report) + b"\n")
        self._reports.flush()

    def _prepare(self, order: Prepare) -> Prepared:
        self._bench = None
        try:
            self._bench = self._make_bench(
                order.run,
                order.experiment,
                shards=Path(order.shards),
                steps=Path(order.steps),
                clients=order.clients,
            )
        except (FedbedError, OSError) as error:
            self._problem = str(error)
        except Exception as error:  # noqa: BLE001 - whatever it is must reach a person
            self._problem = _unexpected(error)
        return Prepared(run=order.run, problem="" if self._bench else self._problem)

    def _turn(self, order: Turn) -> TurnDone | TurnFailed:
        started = time.perf_counter()
        try:
            done = self._do(order)
        except _AbandonedError:
            return TurnFailed(job=order.job, problem="")
        except (FedbedError, OSError) as error:
            return TurnFailed(job=order.job, problem=str(error))
        except Exception as error:  # noqa: BLE001 - somebody's algorithm may raise anything
            return TurnFailed(job=order.job, problem=_unexpected(error))
        return msgspec.structs.replace(done, seconds=time.perf_counter() - started)

    def _do(self, order: Turn) -> TurnDone:
        if self._bench is None:
            raise FedbedError(self._problem)

        def progress(epoch: int, epochs: int, loss: float) -> None:
            if order.job in self._abandoned:
                raise _AbandonedError
            self._report(EpochDone(job=order.job, epoch=epoch, epochs=epochs, loss=loss))

        download = Path(order.download)
        if order.kind == "test":
            metrics = self._bench.test(
                order.client, order.round, base=order.base, download=download
            )
            return TurnDone(job=order.job, seconds=0.0, metrics=metrics)
        result = self._bench.train(
            order.client, order.round, base=order.base, download=download, progress=progress
        )
        return TurnDone(
            job=order.job,
            seconds=0.0,
            loss=result.loss,
            samples=result.samples,
            bytes=result.bytes,
        )


def _unexpected(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"


def main() -> None:
    """Work until stdin ends. Stray prints of libraries go to stderr, not among the reports."""
    reports = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    from common.training import use_one_thread

    use_one_thread()
    worker = _Worker(reports)
    threading.Thread(target=worker.read_orders, daemon=True).start()
    worker.run()


if __name__ == "__main__":
    main()
