"""Carries out the orders of a training process; imports torch."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import msgspec

from common.code_files import difference, digests_of
from common.errors import FedbedError, UnfitUpdateError
from common.experiment.effort import most_steps, testing_effort, training_effort
from common.experiment.resolve import keeps_state, own_code
from common.learning.device import use_one_thread
from common.plugins import explain, use_code
from common.wire.messages import ClientData, bounded
from common.worker.bench import Workbench
from common.worker.orders import (
    AbandonedError,
    EpochDone,
    JobDone,
    JobError,
    JobOrder,
    Prepare,
    Prepared,
)
from common.worker.pace import Pace, Wait, just_wait

OnEpoch: TypeAlias = Callable[[EpochDone], None]


class Executor:
    """Carries out orders one after another, in this process."""

    def __init__(self) -> None:
        use_one_thread()
        self._bench: Workbench | None = None
        self._speed = 0.0
        self._problem = "nothing was prepared"

    def prepare(self, order: Prepare) -> Prepared:
        """Get ready for a run."""
        self._bench, self._problem, self._speed = None, "", order.speed
        data: dict[int, ClientData] = {}
        try:
            if order.code:
                use_code(Path(order.code))
            _check_code(order)
            bench = Workbench(
                order.run,
                order.experiment,
                shards=Path(order.shards),
                snapshots=Path(order.snapshots),
                clients=order.clients,
                local=Path(order.data) if order.data else None,
            )
            data = bench.local_data(order.clients, class_counts=order.class_counts)
            self._bench = bench
        except (FedbedError, OSError) as error:
            self._problem = str(error)
        except Exception as error:  # noqa: BLE001 - whatever it is must be reported
            self._problem = _unexpected(error)
        if self._bench is None:
            return Prepared(run=order.run, problem=self._problem)
        algorithm = self._bench.algorithm
        return Prepared(
            run=order.run,
            coupled=algorithm.coupled,
            stateful=keeps_state(order.experiment),
            private=algorithm.private is not None,
            secure=order.experiment.privacy.secure,
            data=data,
        )

    def run(
        self, order: JobOrder, on_epoch: OnEpoch, wait: Wait = just_wait
    ) -> JobDone | JobError:
        """Train or test one client; what went wrong is in the report."""
        try:
            bench = self._ready()
            seconds = 0.0
            if self._speed:
                seconds = _effort(bench, order, self._speed) / self._speed
                limit = most_steps(bench.experiment, self._speed)
                order = msgspec.structs.replace(order, most_steps=limit)
            pace = Pace(order.job, seconds, wait)
            done = self._run(bench, order, on_epoch, pace)
            pace.reach(1.0)
        except AbandonedError:
            return JobError(job=order.job, problem="")
        except (FedbedError, OSError) as error:
            final = isinstance(error, UnfitUpdateError)
            return JobError(job=order.job, problem=str(error), final=final)
        except Exception as error:  # noqa: BLE001 - a user's algorithm may raise anything
            return JobError(job=order.job, problem=_unexpected(error))
        return msgspec.structs.replace(done, seconds=pace.elapsed)

    def _ready(self) -> Workbench:
        if self._bench is None:
            raise FedbedError(self._problem)
        return self._bench

    @staticmethod
    def _run(bench: Workbench, order: JobOrder, on_epoch: OnEpoch, pace: Pace) -> JobDone:
        def progress(epoch: int, epochs: int, loss: float) -> None:
            pace.reach(epoch / epochs)
            on_epoch(EpochDone(job=order.job, epoch=epoch, epochs=epochs, loss=bounded(loss)))

        if order.kind == "test":
            return JobDone(job=order.job, seconds=0.0, metrics=bench.test(order))
        result = bench.train(order, progress)
        return JobDone(
            job=order.job,
            seconds=0.0,
            loss=result.loss,
            samples=result.samples,
            bytes=result.bytes,
        )


def _effort(bench: Workbench, order: JobOrder, speed: float) -> float:
    """What a job takes, in training samples."""
    shard = bench.shards.load(order.client)  # perhaps before there are statistics
    if order.kind == "test":
        return testing_effort(bench.experiment, len(shard.test))
    return training_effort(bench.experiment, len(shard.train), len(shard.test), speed)


def _check_code(order: Prepare) -> None:
    """Refuse to compute with other code than the coordinator's."""
    if order.digests is not None:
        other = difference(order.digests, digests_of(own_code(order.experiment)))
        if other:
            raise FedbedError(other)


def _unexpected(error: Exception) -> str:
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        most = resource.getrlimit(resource.RLIMIT_DATA)[0]
        limit = (
            "" if most == resource.RLIM_INFINITY else f" ({most // 2**20} MB for each process)"
        )
        return f"memory ran out{limit}: fewer --workers, a smaller model or smaller batches"
    return explain(error)
