"""A pool without processes: what a client learns is a hash of all that went into it.

Downloads are read and snapshots are written as the training process does, so both shells see
real files and real updates. A test decides when a piece of work is done.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.arrays import Arrays
from common.errors import FedbedError
from common.wire.messages import ClientMetrics
from common.wire.tensors import ModelMeta, UpdateMeta, decode_tensors, encode_tensors
from common.worker.orders import JobDone, JobError, JobOrder, Prepare, Prepared, Report
from common.worker.secret_store import masked_update
from common.worker.snapshot_store import SnapshotStore
from tests.some_sums import counted

SAMPLES = 10
TOTAL = 100
DIED = "the training process died (SIGKILL)"


@dataclass(slots=True, eq=False)
class Running:
    """A job, and whether its snapshot is on disk."""

    order: JobOrder
    written: bool = False


class HashingPool:
    """Does one piece of work per call of `work`; implements `common.worker.pool.Pool`."""

    def __init__(self, size: int, post: Callable[[Report], None]) -> None:
        self.problem = ""  # why runs cannot be prepared
        self.trained: list[tuple[int, int]] = []  # (client, round) of every snapshot written
        self.released = False
        self._size = size
        self._post = post
        self._order: Prepare | None = None
        self._unprepared: Prepare | None = None
        self._jobs: dict[int, Running] = {}

    # what the daemon calls

    def prepare(self, order: Prepare) -> None:
        self._order = self._unprepared = order
        self.released = False

    def start(self, order: JobOrder) -> None:
        assert len(self._jobs) < self._size, "more jobs than processes"
        assert self._order is not None, "a job before its run"
        self._jobs[order.job] = Running(order)

    def abandon(self, job: int) -> None:
        if job in self._jobs and not self._jobs[job].written:
            del self._jobs[job]
            self._post(JobError(job=job, problem=""))

    def release(self) -> None:
        self._order = self._unprepared = None
        self._jobs.clear()
        self.released = True

    # what tests call

    @property
    def pieces(self) -> int:
        """How many pieces of work could be done next."""
        return 1 if self._unprepared is not None else len(self._jobs)

    def work(self, choice: int = 0) -> bool:
        """Do one piece: prepare, write a snapshot, or report; False if there is none."""
        if self._unprepared is not None:
            run, secure = self._unprepared.run, self._unprepared.experiment.privacy.secure
            self._unprepared = None
            self._post(Prepared(run=run, problem=self.problem, secure=secure))
            return True
        if not self._jobs:
            return False
        running = list(self._jobs.values())[choice % len(self._jobs)]
        try:
            self._work(running)
        except (FedbedError, ValueError, KeyError) as error:  # as a training process does
            self._jobs.pop(running.order.job, None)
            self._post(JobError(job=running.order.job, problem=str(error)))
        return True

    def die(self) -> bool:
        """A training process is killed; False if there was none at work."""
        for job in tuple(self._jobs)[:1]:
            del self._jobs[job]
            self._post(JobError(job=job, problem=DIED))
            return True
        return False

    # inside

    def _work(self, running: Running) -> None:
        order = running.order
        if not Path(order.download).exists():
            del self._jobs[order.job]
            self._post(JobError(job=order.job, problem="the download is gone"))
        elif order.kind == "test":
            del self._jobs[order.job]
            self._post(JobDone(job=order.job, seconds=0.5, metrics=self._test(order)))
        elif not running.written:
            self._train(order)
            running.written = True
        else:
            del self._jobs[order.job]
            size = len(self._store.update(order.client, order.round))
            self._post(
                JobDone(job=order.job, seconds=0.5, loss=0.25, samples=SAMPLES, bytes=size)
            )

    @property
    def _store(self) -> SnapshotStore:
        assert self._order is not None, "a job before its run"
        return SnapshotStore(Path(self._order.snapshots), self._order.run)

    def _train(self, order: JobOrder) -> None:
        self.trained.append((order.client, order.round))
        model, _ = decode_tensors(Path(order.download).read_bytes(), ModelMeta)
        drawn = np.frombuffer(self._hash(order, model), np.uint8).astype(np.float32) / 256
        update = {name: array * drawn[0] + drawn[1] for name, array in model.items()}
        meta = UpdateMeta(
            run=self._store.run,
            round=order.round,
            client=order.client,
            samples=SAMPLES,
            steps=1,
            weights={"base": 10.0, "head": 10.0},
            loss=float(drawn[2]),
        )
        blob = encode_tensors(update, meta)
        if order.secret:
            assert self._order is not None
            blob = masked_update(Path(order.secret), blob, self._order.experiment)
        state = {"seen": drawn}
        self._store.write(
            order.client, order.round, state=state, update=blob, tests=None, durable=False
        )

    def _test(self, order: JobOrder) -> ClientMetrics:
        model, _ = decode_tensors(Path(order.download).read_bytes(), ModelMeta)
        correct = int.from_bytes(self._hash(order, model)[:2], "big") % (TOTAL + 1)
        return ClientMetrics(
            run=self._store.run,
            round=order.round,
            client=order.client,
            own={"G": counted(correct, TOTAL)},
        )

    def _hash(self, order: JobOrder, model: Arrays) -> bytes:
        content = hashlib.blake2b(f"{order.kind} {order.client} {order.round}".encode())
        if order.base is not None:
            content.update(self._store.state(order.client, order.base)["seen"].tobytes())
        for name in sorted(model):
            content.update(np.ascontiguousarray(model[name]).tobytes())
        return content.digest()
