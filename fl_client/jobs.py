"""What the training processes do for the open run: orders out, and their reports as events."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from common import VERSION
from common.config import Experiment
from common.errors import FedbedError, ProtocolError, RevealError, WithdrawnError
from common.experiment.resolve import algorithm_of, own_code, participants_of
from common.privacy.available import check_available
from common.privacy.rules import Secret
from common.wire.messages import ChunkHeader, Info, InfoState, Step, TrainDetail
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
from fl_client.outgoing import Outgoing, UpdateKey
from fl_client.settings import Settings

if TYPE_CHECKING:
    from fl_client.secrets import Secrets

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
        self._threshold = 0.0
        self.secrets: Secrets | None = None  # of a secured run
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
            if experiment.privacy.secure:
                check_available()
        except (msgspec.DecodeError, FedbedError) as error:
            problem = f"cannot take part in {detail.run} (fedbed {detail.version}): {error}"
            self._publish_problem(problem)
            return False
        folder = self._folder / "runs" / detail.run
        forget_old_runs(folder)
        self._preparing = SnapshotStore(folder, detail.run)
        self._threshold = experiment.privacy.threshold
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

    def close_run(self, *, ended: bool) -> None:
        """Forget the run and end its jobs; `ended`: nobody will go on with it."""
        if ended and self.secrets is not None:
            self.secrets.forget()
        self._pool.release()
        self._running.clear()
        self._store = self.secrets = None

    def start(self, job: Job) -> None:
        """Have a job done."""
        self.tick()
        self._last_job += 1
        self._running[self._last_job] = job
        run, private, secret = self.open_store.run, "", ""
        if job.kind == "train" and self._private:
            private = str(self._downloads.private_path(run, job.round, job.client))
        if job.kind == "train" and self.secrets is not None:
            secret = str(self.secrets.path(job.client))
        self._pool.start(
            JobOrder(
                job=self._last_job,
                kind=job.kind,
                client=job.client,
                round=job.round,
                base=job.base,
                download=str(self._downloads.path(run, job.round)),
                private=private,
                secret=secret,
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
                loss = None if self.secrets else report.loss
                info = msgspec.structs.replace(info, epochs=report.epochs, loss=loss)
                return EpochFinished(job, info, now)
            case JobError(job=job_id, problem=problem) if job_id in self._running:
                job = self._running.pop(job_id)
                if problem:
                    log.error("client %d, round %d: %s", job.client, job.round, problem)
                return JobFailed(job, problem, now, report.final)
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
        self.secrets = self._open_secrets(store) if report.secure else None
        return Opened(
            report.run,
            store.scan(),
            report.coupled,
            now,
            report.stateful,
            report.private,
            report.data,
            report.secure,
        )

    def _open_secrets(self, store: SnapshotStore) -> Secrets:
        from fl_client.secrets import Secrets  # needs a package that others need not have

        return Secrets(store.folder, store.run, self._threshold)

    def _done(self, job: Job, done: JobDone, joules: float | None, now: float) -> Event:
        if done.metrics is not None:
            return Tested(job, done.metrics, now)
        info = msgspec.structs.replace(
            self._info(job, state="trained"),
            seconds=done.seconds,
            bytes=done.bytes,
            joules=joules,
        )
        if self.secrets is None:  # else both are summed under the masks
            info = msgspec.structs.replace(info, loss=done.loss, samples=done.samples)
        log.info("client %d, round %d: trained in %.1f s", job.client, job.round, done.seconds)
        return Trained(job, info, now)

    def _info(self, job: Job, *, state: str, epoch: int = 0) -> Info:
        ids = {"run": self.open_store.run, "round": job.round, "client": job.client}
        return msgspec.convert(
            {**ids, "board": self._policy.board, "state": state, "epoch": epoch}, Info
        )

    # secured runs

    def receive(self, chunk: ChunkHeader) -> Step | Info:
        """Take a complete download of one client, of a secured round: the step that it is for,
        or that the client cannot go on."""
        client_id, round_number = chunk.client, chunk.round
        open_run = self._store.run if self._store is not None else ""
        if self.secrets is None or client_id is None or chunk.run != open_run:
            return ""
        path = self._downloads.private_path(chunk.run, round_number, client_id)
        try:
            return self.secrets.receive(path.read_bytes(), client_id, round_number)
        except WithdrawnError as error:
            return self._about(client_id, round_number, "withdrawn", problem=str(error))

    def contribution(
        self, client_id: int, round_number: int, step: Step, outgoing: Outgoing
    ) -> Info:
        """What a client sends in a step of a secured round."""
        assert self.secrets is not None, "asked only in secured runs"
        store, known = self.open_store, self.secrets.has_keys(client_id, round_number)
        if step == "keys" and not known and round_number in store.rounds(client_id):
            outgoing.discard(store, UpdateKey(client_id, round_number))  # its masks are lost
        try:
            secret = self.secrets.message(client_id, round_number, step)
        except (WithdrawnError, ProtocolError) as error:
            return self._about(client_id, round_number, "withdrawn", problem=str(error))
        except RevealError as error:
            log.warning("client %d, round %d: %s", client_id, round_number, error)
            return self._about(client_id, round_number, "refused", problem=str(error))
        return self._about(client_id, round_number, "secret", secret=secret)

    def _about(
        self,
        client_id: int,
        round_number: int,
        state: InfoState,
        *,
        secret: Secret | None = None,
        problem: str = "",
    ) -> Info:
        return Info(
            run=self.open_store.run,
            round=round_number,
            client=client_id,
            board=self._policy.board,
            state=state,
            problem=problem[:1000],
            secret=secret,
        )
