"""Buffered asynchronous rounds (FedBuff) from end to end, in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch
from torch.nn import functional

from common.arrays import Arrays
from common.config import Experiment
from common.data.shards import ShardSet
from common.errors import UsageError
from common.experiment.file import parse_experiment
from common.experiment.resolve import first_model
from common.rng import generator
from fl_server.run.model.file import NAME
from tests.fl_server.coordinator.test_virtual import EXPERIMENT, SLOW, simulated
from tests.fl_server.fleet.fleets import fleet_of, group

MIXED = fleet_of(group("fast", boards=2), group("slow", boards=2, hardware=SLOW))
EQUAL = fleet_of(group("a", boards=4))
BUFFER = {"buffer": 2, "server_rate": 0.8}
ASYNC: dict[str, dict[str, Any]] = {
    "experiment": {"rounds": 8},
    "algorithm": {"name": "fedavg", "weighting": "uniform"},
    "training": {"epochs": 1, "learning_rate": 0.05, "momentum": 0.0},
    "evaluation": {"every": 100},
    "aggregation": BUFFER,
}


def reference_training(
    model: dict[str, torch.Tensor],
    shards: ShardSet,
    at: tuple[int, int],
    experiment: Experiment,
) -> dict[str, torch.Tensor]:
    """Plain SGD in double precision, of one client (`at`: round, client)."""
    settings, (round_number, client) = experiment.training, at
    own = shards.load(client).train
    x = torch.tensor(own.inputs[0].reshape(len(own), -1) / 127.5 - 1.0, dtype=torch.float64)
    y = torch.from_numpy(np.asarray(own.targets))
    p = {name: value.clone().requires_grad_() for name, value in model.items()}
    w1, b1, w2, b2 = (p[name] for name in sorted(p, key=order))
    rng = generator(experiment.experiment.seed, "shuffle", round_number, client)
    for batch in torch.from_numpy(rng.permutation(len(own))).split(settings.batch_size):
        hidden = functional.relu(x[batch] @ w1.T + b1)
        loss = functional.cross_entropy(hidden @ w2.T + b2, y[batch])
        gradients = torch.autograd.grad(loss, [w1, b1, w2, b2])
        with torch.no_grad():
            for value, gradient in zip((w1, b1, w2, b2), gradients, strict=True):
                value -= settings.learning_rate * gradient
    return {name: value.detach() for name, value in p.items()}


def order(name: str) -> tuple[bool, bool]:
    return name.startswith("head"), name.endswith("bias")


def fedbuff(
    experiment: Experiment, shards: ShardSet, buffers: list[list[tuple[int, int]]]
) -> dict[str, torch.Tensor]:
    """Algorithm 1 of Nguyen et al. (2022), with the staleness scaling of its section 3.

    `buffers` has, for every server step, which client's update came, and its staleness.
    """
    first: Arrays = first_model(experiment)
    models = [{n: torch.tensor(a, dtype=torch.float64) for n, a in first.items()}]
    eta = experiment.aggregation.server_rate
    for t, buffer in enumerate(buffers):
        total = {name: torch.zeros_like(value) for name, value in models[t].items()}
        for client, tau in buffer:
            start = models[t - tau]
            end = reference_training(start, shards, (t - tau + 1, client), experiment)
            for name in total:
                total[name] += (end[name] - start[name]) / (1 + tau) ** 0.5
        step = {name: eta * value / len(buffer) for name, value in total.items()}
        models.append({name: value + step[name] for name, value in models[t].items()})
    return models[-1]


@pytest.mark.slow
def test_fedbuff_is_what_its_paper_says(tmp_path: Path) -> None:
    _, lines = simulated(tmp_path, "run", MIXED, **ASYNC)
    trained = [line for line in lines if line["round"] > 0]
    buffers = [list(zip(x["clients"], x["staleness"], strict=True)) for x in trained]
    assert [len(buffer) for buffer in buffers[1:]] == 7 * [2]
    assert {tau for buffer in buffers for _, tau in buffer} >= {0, 1, 2}
    sections = {key: {**EXPERIMENT.get(key, {}), **ASYNC.get(key, {})} for key in
                {*EXPERIMENT, *ASYNC}}  # fmt: skip
    experiment = parse_experiment(sections)
    shards = ShardSet(tmp_path / "shards", experiment).ensure(range(4))
    expected = fedbuff(experiment, shards, buffers)
    found = safetensors.numpy.load_file(tmp_path / "run" / NAME)
    assert set(found) == set(expected)
    for name, array in found.items():
        assert np.abs(array - expected[name].numpy()).max() <= 1e-6


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bits(tmp_path: Path) -> None:
    first, second = (simulated(tmp_path, name, MIXED, **ASYNC) for name in ("one", "two"))
    assert first == second


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 100])
def test_a_buffer_for_everybody_is_the_mean_of_synchronous_rounds(
    tmp_path: Path, every: int
) -> None:
    testing = {"every": every}
    plain, rounds = simulated(tmp_path, "plain", EQUAL, evaluation=testing)
    whole = {"buffer": 4}
    same, lines = simulated(tmp_path, "same", EQUAL, evaluation=testing, aggregation=whole)
    assert same == plain
    assert [x.get("accuracy_global") for x in lines] == [
        x.get("accuracy_global") for x in rounds
    ]
    assert all(x["staleness"] == [0, 0, 0, 0] for x in lines[1:])
    other, _ = simulated(tmp_path, "other", MIXED, evaluation=testing, aggregation=BUFFER)
    assert other != plain


@pytest.mark.slow
def test_fast_boards_do_not_wait_for_slow_ones(tmp_path: Path) -> None:
    _, waiting = simulated(tmp_path, "waiting", MIXED)
    _, lines = simulated(tmp_path, "buffer", MIXED, aggregation={"buffer": 2})
    assert sum(x["seconds"] for x in lines[1:]) < sum(x["seconds"] for x in waiting[1:])


def test_without_a_fleet_there_is_no_order_to_simulate(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--fleet"):
        simulated(tmp_path, "run", None, **ASYNC)
