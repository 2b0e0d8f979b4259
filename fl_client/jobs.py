"""What the training processes do for the open run: orders out, and their reports as events."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from common import VERSION
from common.config import Experiment
from common.errors import FedbedError
from common.experiment.resolve import algorithm_of, own_code, participants_of
from common.wire.messages import Info, TrainDetail
from common.worker.orders import EpochDone, JobDone, JobError, JobOrder, Prepare, Prepared
from common.worker.pool import Pool
from common.worker.snapshot_store import SnapshotStore
from fl_client.agent.state import (
    EpochFinished,
    Event,
    Job,
    JobFailed,
    Opened,
    OpenFailed,
    Policy,
    Tested,
    Trained,
)
from fl_client.downloads import Downloads
from fl_client.hardware.gauges import Gauges
from fl_client.old_runs import forget_old_runs
from fl_client.settings import Settings

log = logging.getLogger(__name__)


class Jobs:
    """The run that is open (or being prepared), and its jobs on the pool."""

    def __init__(
        self,
        policy: Policy,
        settings: Settings,
        pool: Pool,
        downloads: Downloads,
        gauges: Gauges,
        publish_problem: Callable[[str], None],
    ) -> None:
        self._store: SnapshotStore | None = None
        self._policy = policy
        self._settings = settings
        self._folder = settings.state
        self._pool = pool
        self._downloads = downloads
        self._gauges = gauges
        self._publish_problem = publish_problem
        self._preparing: SnapshotStore | None = None
        self._private = False  # whether a client that trains has a download of its own
        self._running: dict[int, Job] = {}
        self._last_job = 0

    @property
    def open_store(self) -> SnapshotStore:
        """The snapshots of the open run."""
        assert self._store is not None, "no run is open"
        return self._store

    def open_run(self, detail: TrainDetail) -> bool:
        """Get the pool ready for a run; `Prepared` follows. False if we cannot take part."""
        log.info("run %s: preparing", detail.run)
        if detail.version != VERSION:
            log.warning("the coordinator has fedbed %s, this board %s", detail.version, VERSION)
        try:
            experiment = msgspec.json.decode(detail.experiment, type=Experiment)
            mine = sorted(set(self._policy.clients) & set(participants_of(experiment)))
            if not own_code(experiment):  # which only training processes import
                algorithm_of(experiment)
        except (msgspec.DecodeError, FedbedError) as error:
            problem = f"cannot take part in {detail.run} (fedbed {detail.version}): {error}"
            self._publish_problem(problem)
            return False
        folder = self._folder / "runs" / detail.run
        forget_old_runs(folder)
        self._preparing = SnapshotStore(folder, detail.run)
        self._pool.release()
        self._pool.prepare(
            Prepare(
                run=detail.run,
                experiment=experiment,
                shards=str(self._folder / "shards"),
                snapshots=str(folder),
                clients=tuple(mine),
                data=str(self._settings.data or ""),
                class_counts=self._settings.class_counts,
                code=str(self._settings.code or ""),
                digests=detail.code,
                speed=self._settings.speed,
            )
        )
        return True

    def close_run(self) -> None:
        """Forget the run and end its jobs."""
        self._pool.release()
        self._running.clear()
        self._store = None

    def start(self, job: Job) -> None:
        """Have a job done."""
        self.tick()
        self._last_job += 1
        self._running[self._last_job] = job
        run, private = self.open_store.run, ""
        if job.kind == "train" and self._private:
            private = str(self._downloads.private_path(run, job.round, job.client))
        self._pool.start(
            JobOrder(
                job=self._last_job,
                kind=job.kind,
                client=job.client,
                round=job.round,
                base=job.base,
                download=str(self._downloads.path(run, job.round)),
                private=private,
            )
        )

    def cancel(self, job: Job) -> None:
        """Give a job up."""
        for job_id, running in self._running.items():
            if running == job:
                self._pool.abandon(job_id)

    def tick(self) -> None:
        """Time has passed, or which jobs run is about to change."""
        self._gauges.tick(self._running)

    def event_of(self, report: object, now: float) -> Event | None:
        """What a report of the pool means; None for a job that is forgotten."""
        match report:
            case Prepared():
                return self._prepared(report, now)
            case EpochDone(job=job_id) if job_id in self._running:
                job = self._running[job_id]
                info = self._info(job, state="training", epoch=report.epoch)
                info = msgspec.structs.replace(info, epochs=report.epochs, loss=report.loss)
                return EpochFinished(job, info, now)
            case JobError(job=job_id, problem=problem) if job_id in self._running:
                job = self._running.pop(job_id)
                if problem:
                    log.error("client %d, round %d: %s", job.client, job.round, problem)
                return JobFailed(job, problem, now)
            case JobDone(job=job_id) if job_id in self._running:
                joules = self._gauges.ended(job_id, self._running)
                return self._done(self._running.pop(job_id), report, joules, now)
        return None

    def _prepared(self, report: Prepared, now: float) -> Event | None:
        store, self._preparing = self._preparing, None
        if store is None or store.run != report.run:
            self._preparing = store
            return None
        self._publish_problem(report.problem)
        if report.problem:
            return OpenFailed(report.run, now)
        self._store, self._private = store, report.private
        return Opened(
            report.run,
            store.scan(),
            report.coupled,
            now,
            report.stateful,
            report.private,
            report.data,
        )

    def _done(self, job: Job, done: JobDone, joules: float | None, now: float) -> Event:
        if done.metrics is not None:
            return Tested(job, done.metrics, now)
        info = msgspec.structs.replace(
            self._info(job, state="trained"),
            loss=done.loss,
            seconds=done.seconds,
            bytes=done.bytes,
            samples=done.samples,
            joules=joules,
        )
        log.info("client %d, round %d: trained in %.1f s", job.client, job.round, done.seconds)
        return Trained(job, info, now)

    def _info(self, job: Job, *, state: str, epoch: int = 0) -> Info:
        ids = {"run": self.open_store.run, "round": job.round, "client": job.client}
        return msgspec.convert(
            {**ids, "board": self._policy.board, "state": state, "epoch": epoch}, Info
        )
