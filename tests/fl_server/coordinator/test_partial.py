"""Clients that run out of time send the steps that they have done."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from common.errors import UsageError
from fl_server.run.model.file import NAME
from tests.fl_server.coordinator.test_virtual import SLOW, simulated
from tests.fl_server.fleet.fleets import fleet_of, group

MIXED = fleet_of(group("fast", boards=2), group("slow", boards=2, hardware=SLOW))
LONG = {"epochs": 4, "batch_size": 10}


@pytest.mark.slow
def test_a_round_is_shorter_and_the_same_again(tmp_path: Path) -> None:
    whole = simulated(tmp_path, "whole", MIXED, training=LONG)
    cut = {**LONG, "seconds": 2.0}
    first, second = (simulated(tmp_path, name, MIXED, training=cut) for name in ("one", "two"))
    assert first == second
    assert first[0] != whole[0]
    assert all(
        a["seconds"] < b["seconds"] for a, b in zip(first[1][1:], whole[1][1:], strict=True)
    )
    assert all(line["updates"] == 4 for line in first[1][1:])


@pytest.mark.slow
def test_who_has_enough_time_trains_as_ever(tmp_path: Path) -> None:
    whole, _ = simulated(tmp_path, "whole", MIXED, training=LONG)
    patient, _ = simulated(tmp_path, "patient", MIXED, training={**LONG, "seconds": 1000.0})
    assert patient == whole


@pytest.mark.slow
def test_an_update_counts_by_the_share_of_its_steps(tmp_path: Path) -> None:
    """In two seconds the slow client does 4 of its 12 steps, and the fast one all."""
    one = {"experiment": {"rounds": 1}, "selection": {"participants": "1,2"}}
    pair = fleet_of(group("fast"), group("slow", hardware=SLOW))
    cut = {**one, "training": {**LONG, "seconds": 2.0}}
    fast = {**one, "training": LONG, "selection": {"participants": "1"}}
    slow = {**one, "training": {**LONG, "steps": 4}, "selection": {"participants": "2"}}
    models = {}
    for name, sections in {"cut": cut, "fast": fast, "slow": slow}.items():
        fleet = pair if name == "cut" else fleet_of(group())
        simulated(tmp_path, name, fleet, **sections)  # type: ignore[arg-type] # of dicts
        models[name] = safetensors.numpy.load_file(tmp_path / name / NAME)
    share = 4 / 12
    for name, array in models["cut"].items():
        expected = (models["fast"][name] + share * models["slow"][name]) / (1 + share)
        assert np.abs(array - expected).max() < 1e-6


def test_without_a_fleet_nobody_knows_how_many_steps_that_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--fleet"):
        simulated(tmp_path, "run", None, training={"seconds": 1.0})
