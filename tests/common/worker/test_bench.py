from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from common.arrays import Arrays, digest
from common.config import DataSection, Experiment, ModelSection, TrainingSection
from common.experiment.resolve import first_model
from common.wire.tensors import ModelMeta, UpdateMeta, decode_tensors, encode_tensors
from common.worker.bench import Workbench
from common.worker.orders import JobOrder
from common.worker.snapshot_store import SnapshotStore


def trained(
    folder: Path, experiment: Experiment, round_number: int, base: int | None = None
) -> Arrays:
    """The update of client 0 in this round, from the first model."""
    folder.mkdir(exist_ok=True)
    download = folder / "model.safetensors"
    meta = ModelMeta(run="run-1", round=round_number)
    download.write_bytes(encode_tensors(first_model(experiment), meta))
    bench = Workbench(
        "run-1",
        experiment,
        shards=folder / "shards",
        snapshots=folder / "snapshots",
        clients=(0,),
    )
    order = JobOrder(
        job=1, kind="train", client=0, round=round_number, base=base, download=str(download)
    )
    bench.train(order, lambda *_: None)
    update = SnapshotStore(folder / "snapshots", "run-1").update(0, round_number)
    return decode_tensors(update, UpdateMeta)[0]


def test_the_learning_rate_decays_with_the_rounds(tmp_path: Path) -> None:
    experiment = Experiment(
        model=ModelSection(name="dnn"),
        data=DataSection(clients=200),
        training=TrainingSection(steps=1, learning_rate_decay=0.1),
    )
    before = first_model(experiment)["head.1.0.bias"]
    moves = [
        np.abs(trained(tmp_path, experiment, round_number)["head.1.0.bias"] - before).max()
        for round_number in (1, 3)
    ]
    assert 20 < moves[0] / moves[1] < 500  # about 100: the batches of the rounds differ


@pytest.mark.parametrize("name", ["s2cnn", "tests.common.learning.test_user_models:noisy"])
def test_a_job_with_dropout_gives_the_same_bytes_again(tmp_path: Path, name: str) -> None:
    experiment = Experiment(
        model=ModelSection(name=name),
        data=DataSection(clients=200),
        training=TrainingSection(steps=2),
    )
    one = digest(trained(tmp_path / "one", experiment, 1))
    torch.rand(1)
    assert digest(trained(tmp_path / "two", experiment, 1)) == one
    assert digest(first_model(experiment)) != one


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_momentum_that_is_kept_makes_two_rounds_of_one_step_like_one_of_two(
    tmp_path: Path, optimizer: Literal["sgd", "adam"]
) -> None:
    """With one batch for all samples: the second step goes on with the first's memory."""

    def experiment(kept: Literal["reset", "keep"]) -> Experiment:
        training = TrainingSection(
            steps=1, batch_size=500, optimizer=optimizer, optimizer_state=kept
        )
        return Experiment(
            model=ModelSection(name="dnn", hidden=4),
            data=DataSection(clients=200),
            training=training,
        )

    moves = {}
    for kept in ("reset", "keep"):
        start = first_model(experiment(kept))
        trained(tmp_path / kept, experiment(kept), 1)
        second = trained(tmp_path / kept, experiment(kept), 2, base=1)
        moves[kept] = {name: second[name] - start[name] for name in start}
    assert digest(moves["keep"]) != digest(moves["reset"])
    if optimizer == "sgd":  # the same gradient twice: g + 0.9 g instead of g
        far, near = moves["keep"]["head.1.0.bias"], moves["reset"]["head.1.0.bias"]
        assert far == pytest.approx(1.9 * near, rel=1e-3, abs=1e-7)
    state = SnapshotStore(tmp_path / "keep" / "snapshots", "run-1").state(0, 2)
    assert any(name.startswith("optimizer.shuffle.") for name in state)
