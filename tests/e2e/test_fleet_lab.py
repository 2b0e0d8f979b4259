"""A lab of slow boards on bad links: the real thing, and the same bits."""

from __future__ import annotations

import pytest

from fl_server.reports.measured import measured_boards
from fl_server.reports.runs import read_run
from tests.e2e.rig import PATIENCE, Rig

pytestmark = pytest.mark.slow

FLEET = """
[[group]]
name = "near"
[group.hardware]
samples_per_second = 20000.0
[group.network]
latency = 20.0
[[group]]
name = "far"
[group.hardware]
samples_per_second = 2500.0
[group.network]
up = 20.0
down = 20.0
latency = 50.0
jitter = 50.0
outages = [[0.5, 1.5], [2.5, 3.0]]
"""


def test_a_fleet_changes_how_long_a_run_takes_and_no_bit_of_its_model(rig: Rig) -> None:
    path = rig.folder / "fleet.toml"
    path.write_text(FLEET)
    lab = rig.start(
        "lab",
        *("fl_server", "lab", str(rig.folder / "tiny.toml"), "--fleet", str(path)),
        *("--run", "r", "--runs", str(rig.runs), "--plain"),
    )
    timed = rig.simulate_apart("--fleet", str(path), name="timed")
    assert timed == rig.simulate()
    assert lab.wait(PATIENCE) == 0, rig.log("lab")
    assert rig.digest() == timed
    real, predicted = (
        {(e["client"], e["round"]): e for e in rig.events(run) if e["event"] == "trained"}
        for run in ("r", "timed")
    )
    assert real.keys() == predicted.keys()
    for key, event in predicted.items():
        assert real[key]["board"] == event["board"]
        assert real[key]["seconds"] >= event["seconds"] - 0.01  # slowed down, not faster
    assert (rig.runs / "r" / "fleet.toml").read_text() == FLEET
    measured = {board.name: board.speed for board in measured_boards(read_run(rig.runs / "r"))}
    assert measured["far-1"] == pytest.approx(2500.0, rel=0.7)  # a busy machine is slower
    assert measured["far-1"] <= 2500.0 * 1.05
