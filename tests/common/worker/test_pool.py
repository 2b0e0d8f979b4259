"""Real training processes of a real pool, forked and started."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from common.config import DataSection, Experiment, ModelSection, TrainingSection
from common.disk.atomic import write_atomic
from common.experiment.resolve import first_model
from common.wire.chunks import blob_digest
from common.wire.tensors import ModelMeta, UpdateMeta, decode_tensors, encode_tensors
from common.worker.children import Source, StartedProcesses
from common.worker.forking import ForkServer
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
from common.worker.snapshot_store import SnapshotStore

PATIENCE = 60.0
CLIENTS = (0, 1, 2, 3)
EXPERIMENT = Experiment(
    model=ModelSection(name="dnn"),
    data=DataSection(clients=200),
    training=TrainingSection(epochs=3),
)


def long(experiment: Experiment) -> Experiment:
    """So long that a test can always come in between."""
    return Experiment(
        model=experiment.model, data=experiment.data, training=TrainingSection(epochs=100_000)
    )


@dataclass
class Office:
    """A pool, a place for its files, and all it reports."""

    folder: Path
    size: int
    source: Source
    reports: queue.SimpleQueue[Report] = field(default_factory=queue.SimpleQueue)

    def __post_init__(self) -> None:
        self.pool = ProcessPool(self.size, self.reports.put, self.source)

    def next(self) -> Report:
        return self.reports.get(timeout=PATIENCE)

    def quiet(self, seconds: float) -> bool:
        with contextlib.suppress(queue.Empty):
            return self.reports.get(timeout=seconds) is None
        return True

    def prepare(self, experiment: Experiment, clients: tuple[int, ...] = CLIENTS) -> Report:
        self.pool.prepare(
            Prepare(
                run="run-1",
                experiment=experiment,
                shards=str(self.folder / "shards"),
                snapshots=str(self.folder / "snapshots"),
                clients=clients,
            )
        )
        return self.next()

    def start(
        self, job: int, client: int, *, kind: str = "train", base: int | None = None
    ) -> None:
        path = self.folder / "model.safetensors"
        meta = ModelMeta(run="run-1", round=1)
        write_atomic(path, encode_tensors(first_model(EXPERIMENT), meta))
        self.pool.start(
            JobOrder(job=job, kind=kind, client=client, round=1, base=base, download=str(path))
        )

    def until_done(self, job: int) -> list[Report]:
        found: list[Report] = []
        while not (
            found and isinstance(found[-1], JobDone | JobError) and found[-1].job == job
        ):
            found.append(self.next())
        return found

    def update(self, client: int) -> bytes:
        return SnapshotStore(self.folder / "snapshots", "run-1").update(client, 1)


@pytest.fixture(scope="module")
def forks() -> Iterator[ForkServer]:
    """One parent for all tests that leave it alive."""
    with contextlib.closing(ForkServer(keep=True)) as server:
        yield server


@pytest.fixture(scope="module")
def shared(forks: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """One process that is ready for the run, for all tests that leave it alive."""
    office = Office(tmp_path_factory.mktemp("shared"), 1, forks)
    assert office.prepare(EXPERIMENT) == Prepared(run="run-1")
    yield office
    office.pool.release()


def alive(pid: int) -> bool:
    """Whether a process is there; one that only waits to be buried is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def ends_within(pid: int, seconds: float) -> bool:
    pause, end = threading.Event(), time.monotonic() + seconds
    while alive(pid) and time.monotonic() < end:
        pause.wait(0.01)
    return not alive(pid)


@pytest.mark.slow
def test_a_client_is_trained_epoch_by_epoch_and_then_tested(shared: Office) -> None:
    shared.start(1, 0)
    *epochs, done = shared.until_done(1)
    first, *later = [(e.job, e.epoch, e.epochs) for e in epochs if isinstance(e, EpochDone)]
    assert first == (1, 1, 3)
    assert [*later] in ([], [(1, 2, 3)], [(1, 3, 3)], [(1, 2, 3), (1, 3, 3)]), (
        "if they take long"
    )
    assert isinstance(done, JobDone)
    arrays, meta = decode_tensors(shared.update(0), UpdateMeta)
    assert set(arrays) == set(first_model(EXPERIMENT))
    assert (meta.run, meta.round, meta.client) == ("run-1", 1, 0)
    assert (meta.samples, meta.loss) == (done.samples, done.loss)
    assert meta.weights == {"base": float(done.samples), "head": float(done.samples)}
    assert done.bytes == len(shared.update(0))
    assert done.seconds > 0

    shared.start(2, 0, kind="test", base=1)
    (tested,) = shared.until_done(2)
    assert isinstance(tested, JobDone)
    assert tested.metrics is not None
    assert (tested.metrics.run, tested.metrics.client) == ("run-1", 0)
    assert set(tested.metrics.own) == {"G", "L1", "L2"}
    assert tested.metrics.own["L2"].sums["correct"] > tested.metrics.own["G"].sums["correct"]


@pytest.mark.slow
def test_a_job_that_cannot_be_done_is_reported_and_the_next_one_works(shared: Office) -> None:
    shared.start(1, 77, base=None)
    (failed,) = shared.until_done(1)
    assert isinstance(failed, JobError)
    assert "client-77.safetensors" in failed.problem
    shared.start(2, 1, base=9)
    (failed,) = shared.until_done(2)
    assert isinstance(failed, JobError)
    assert "round-000009" in failed.problem
    shared.start(3, 1)
    assert isinstance(shared.until_done(3)[-1], JobDone)


@pytest.mark.slow
def test_what_cannot_be_prepared_is_reported_with_the_reason(shared: Office) -> None:
    wrong = shared.prepare(EXPERIMENT, clients=(0, 200))
    assert wrong == Prepared(
        run="run-1", problem="client id 200 has no data; expected 0 to 199"
    )
    assert shared.prepare(EXPERIMENT) == Prepared(run="run-1")


@pytest.mark.slow
def test_two_started_processes_give_the_same_bytes_as_a_forked_one(
    shared: Office, tmp_path: Path
) -> None:
    for client in (2, 3):
        shared.start(client, client)
        assert isinstance(shared.until_done(client)[-1], JobDone)
    pair = Office(tmp_path, 2, StartedProcesses())
    try:
        assert pair.prepare(EXPERIMENT) == Prepared(run="run-1")
        for client in (2, 3):
            pair.start(client, client)
        assert len(pair.pool.pids()) == 2
        waiting = {2, 3}
        while waiting:
            report = pair.next()
            assert isinstance(report, EpochDone | JobDone)
            if isinstance(report, JobDone):
                waiting.discard(report.job)
        for client in (2, 3):
            assert blob_digest(pair.update(client)) == blob_digest(shared.update(client))
    finally:
        pair.pool.release()


@pytest.mark.slow
def test_a_killed_process_is_reported_with_its_job_and_the_next_job_works(
    forks: ForkServer, tmp_path: Path
) -> None:
    office = Office(tmp_path, 1, forks)
    try:
        assert office.prepare(long(EXPERIMENT)) == Prepared(run="run-1")
        office.start(1, 0)
        assert isinstance(office.next(), EpochDone)
        (pid,) = office.pool.pids()
        os.kill(pid, signal.SIGKILL)
        failed = office.until_done(1)[-1]
        cause = "SIGKILL: killed, probably because memory ran out"
        assert failed == JobError(job=1, problem=f"the training process died ({cause})")
        assert office.pool.pids() == ()

        office.start(2, 0)
        heard = office.next()
        assert isinstance(heard, EpochDone)
        assert (heard.job, heard.epoch, heard.epochs) == (2, 1, 100_000)
        office.pool.abandon(2)
        assert office.until_done(2)[-1] == JobError(job=2, problem="")

        office.start(3, 1)
        assert isinstance(office.next(), EpochDone)
        (pid,) = office.pool.pids()
        office.pool.release()
        assert not alive(pid)
        assert office.pool.pids() == ()
        while not office.reports.empty():
            assert isinstance(office.next(), EpochDone)
        assert office.quiet(0.2), "a released process is not reported as dead"
    finally:
        office.pool.release()


@pytest.mark.slow
def test_a_killed_parent_is_replaced_and_the_next_job_works(tmp_path: Path) -> None:
    with contextlib.closing(ForkServer(keep=False)) as forks:
        office = Office(tmp_path, 1, forks)
        assert office.prepare(long(EXPERIMENT)) == Prepared(run="run-1")
        office.start(1, 0)
        assert isinstance(office.next(), EpochDone)
        (pid,) = office.pool.pids()
        parent = forks.pid
        assert parent is not None
        os.kill(parent, signal.SIGKILL)
        failed = office.until_done(1)[-1]
        assert isinstance(failed, JobError)
        assert "the process that forked it was killed" in failed.problem
        assert ends_within(pid, 20.0)

        office.start(2, 0)
        assert isinstance(office.next(), EpochDone)
        assert forks.pid not in (None, parent)
        office.pool.release()
        assert forks.pid is None, "a parent that is not kept ends with the run"


@pytest.mark.slow
def test_a_parent_that_cannot_import_torch_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with contextlib.closing(ForkServer(keep=True)) as forks:
        office = Office(tmp_path, 1, forks)
        cause = "exit code 1; its last lines are in the log"
        for _ in range(2):
            assert office.prepare(EXPERIMENT) == Prepared(
                run="run-1", problem=f"the training process died ({cause})"
            )


EMPLOYER = """
import sys
from common.worker.orders import Prepare
from common.worker.forking import ForkServer
from common.worker.pool import ProcessPool
forks = ForkServer(keep=True)
pool = ProcessPool(1, print, forks)
from common.config import Experiment
order = Prepare(run="r", experiment=Experiment(), shards="x", snapshots="x", clients=(99,))
pool.prepare(order)
print(forks.pid, *pool.pids(), flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_a_training_process_and_its_parent_end_when_their_owner_dies(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", EMPLOYER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
    ) as employer:
        assert employer.stdout is not None
        pids = [int(pid) for pid in employer.stdout.readline().split()]
        assert [alive(pid) for pid in pids] == [True, True]
        employer.kill()
    assert [ends_within(pid, 20.0) for pid in pids] == [True, True]


def test_a_pool_that_hired_nobody_can_be_released() -> None:
    pool = ProcessPool(2, print, StartedProcesses())
    pool.abandon(1)
    pool.release()
    assert pool.pids() == ()
