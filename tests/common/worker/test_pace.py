"""Jobs that take as long as on a slower board."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.config import DataSection, Experiment, ModelSection, TrainingSection
from common.experiment.effort import training_effort
from common.experiment.resolve import first_model
from common.wire.tensors import ModelMeta, encode_tensors
from common.worker.executor import Executor
from common.worker.orders import AbandonedError, EpochDone, JobDone, JobError, JobOrder, Prepare
from common.worker.pace import Pace

EXPERIMENT = Experiment(
    model=ModelSection(name="dnn", hidden=4),
    data=DataSection(clients=200, max_samples=40),
    training=TrainingSection(epochs=2),
)
ORDER = {"job": 7, "client": 0, "round": 1, "base": None}


def prepared(folder: Path, speed: float) -> tuple[Executor, str]:
    download = folder / "download"
    download.write_bytes(
        encode_tensors(first_model(EXPERIMENT), ModelMeta(run="run-1", round=1))
    )
    executor = Executor()
    ready = executor.prepare(
        Prepare(
            run="run-1",
            experiment=EXPERIMENT,
            shards=str(folder / "shards"),
            snapshots=str(folder / "snapshots"),
            clients=(0,),
            speed=speed,
        )
    )
    assert not ready.problem
    return executor, str(download)


def test_a_share_of_a_job_is_waited_for_until_its_time() -> None:
    waits: list[float] = []
    pace = Pace(3, 1000.0, lambda _, seconds: waits.append(seconds))
    pace.reach(0.25)
    pace.reach(1.0)
    assert waits == [pytest.approx(250, abs=5), pytest.approx(1000, abs=5)]


def test_a_job_without_a_speed_never_waits(tmp_path: Path) -> None:
    executor, download = prepared(tmp_path, 0.0)
    order = JobOrder(**ORDER, kind="train", download=download)  # type: ignore[arg-type]
    done = executor.run(order, lambda _: None, lambda *_: pytest.fail("it waits"))
    assert isinstance(done, JobDone)


def test_a_slow_board_takes_its_time_epoch_by_epoch_and_for_a_test_a_third(
    tmp_path: Path,
) -> None:
    executor, download = prepared(tmp_path, 0.01)  # a hundred seconds for each sample
    waits: list[float] = []
    epochs: list[EpochDone] = []

    def wait(_job: int, seconds: float) -> None:
        waits.append(seconds)

    order = JobOrder(**ORDER, kind="train", download=download)  # type: ignore[arg-type]
    done = executor.run(order, epochs.append, wait)
    assert isinstance(done, JobDone)
    tested = 40 - done.samples
    whole = training_effort(EXPERIMENT, done.samples, tested) / 0.01
    assert waits == [pytest.approx(share * whole, rel=0.02) for share in (0.5, 1.0, 1.0)]
    assert len(epochs) == 2
    order = JobOrder(**ORDER, kind="test", download=download)  # type: ignore[arg-type]
    assert isinstance(executor.run(order, epochs.append, wait), JobDone)
    assert waits[-1] == pytest.approx(tested / 3 / 0.01, rel=0.02)


def test_a_job_that_waits_can_be_given_up(tmp_path: Path) -> None:
    executor, download = prepared(tmp_path, 0.01)

    def given_up(_job: int, _seconds: float) -> None:
        raise AbandonedError

    order = JobOrder(**ORDER, kind="test", download=download)  # type: ignore[arg-type]
    assert executor.run(order, lambda _: None, given_up) == JobError(job=7, problem="")
