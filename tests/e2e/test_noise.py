"""Differential privacy under secure aggregation, on real boards."""

from __future__ import annotations

import numpy as np
import pytest

from fl_server.run.model.file import read_model
from tests.e2e.rig import TINY, Rig, boards

CLIP, NOISE, CLIENTS, HELPERS = 0.5, 2.0, 4, 3  # 60 % of 4 clients can open a sum
EXPERIMENT = TINY.replace("rounds = 2", "rounds = 1") + (
    '[aggregation]\narithmetic = "exact"\n[privacy]\nsecure = true\n'
    f"clip = {CLIP}\nnoise = {NOISE}\n"
)


@pytest.mark.slow
def test_clients_add_shares_of_the_noise_that_nobody_sees_by_themselves(rig: Rig) -> None:
    pytest.importorskip("dp_accounting", reason="fedbed[accounting] is not installed")
    rig.write_experiment(EXPERIMENT)
    boards(rig, ("0,1", "2,3"))
    rig.finish(rig.coordinator())
    quiet = rig.simulate("privacy.noise=0")
    assert rig.digest() != quiet
    with_noise = read_model(rig.runs / "r" / "model.safetensors")
    without = read_model(rig.runs / "sim" / "model.safetensors")
    gaps = [(with_noise[name].astype(np.float64) - without[name]).ravel() for name in without]
    found = np.concatenate(gaps).std() * CLIENTS
    assert found == pytest.approx(NOISE * CLIP * np.sqrt(CLIENTS / HELPERS), rel=0.03)
    assert rig.metrics()[-1]["epsilon"] > 0
    assert not list((rig.runs / "r").rglob("noise.key")), "the coordinator has drawn none"
