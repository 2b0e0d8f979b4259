"""A short `make chaos`: one fault of every kind in one run, and the same bits at the end."""

from __future__ import annotations

import pytest

from fl_server.lab.fault_script import TARGETS
from tests.e2e.rig import TINY, Rig

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SCRIPT = """
seed = 3
[[fault]]
seconds = 0.3
kind = "duplicate"
round = 1
[[fault]]
seconds = 0.3
kind = "corrupt"
target = "b1"
round = 2
phase = "safe"
[[fault]]
seconds = 0.3
kind = "kill"
target = "broker"
round = 3
phase = "update"
[[fault]]
seconds = 0.3
kind = "cut"
target = "b2"
round = 4
[[fault]]
seconds = 0.3
kind = "kill"
target = "server"
round = 5
phase = "safe"
[[fault]]
seconds = 0.3
kind = "slow"
target = "b1"
round = 6
[[fault]]
seconds = 0.3
kind = "wipe"
target = "broker"
round = 7
phase = "open"
[[fault]]
seconds = 0.3
kind = "corrupt"
target = "server"
round = 8
phase = "safe"
[[fault]]
seconds = 0.3
kind = "freeze"
target = "b1"
round = 9
[[fault]]
seconds = 0.3
kind = "stop"
target = "server"
round = 10
[[fault]]
seconds = 0.3
kind = "kill"
target = "b2"
round = 11
"""


def test_one_fault_of_every_kind_changes_nothing(rig: Rig) -> None:
    rig.write_experiment(TINY.replace("rounds = 2", "rounds = 12"))
    (rig.folder / "faults.toml").write_text(SCRIPT)
    lab = rig.start(
        *("lab", "fl_server", "lab", "tiny.toml", "--boards", "2", "--faults", "faults.toml"),
        *("--run", "r", "--runs", str(rig.runs), "--set", "training.epochs=2"),
    )
    assert lab.wait(240) == 0, rig.log("lab")
    assert rig.digest() == rig.simulate("training.epochs=2")
    done = [e for e in rig.events() if e["event"] == "fault"]
    assert {e["kind"] for e in done} == set(TARGETS)
    assert "no sign of recovery" not in rig.log("lab")
    assert [line["round"] for line in rig.metrics()] == list(range(13))
    assert rig.updates() == {(number, client) for number in range(1, 13) for client in range(4)}


KILLS = """
[[fault]]
kind = "kill"
target = "server"
round = 3
phase = "safe"
[[fault]]
kind = "kill"
target = "broker"
round = 6
phase = "update"
[[fault]]
kind = "kill"
target = "b2"
round = 9
[[fault]]
kind = "kill"
target = "server"
round = 12
"""


def test_a_buffered_run_has_the_model_that_its_order_gives_whoever_is_killed(rig: Rig) -> None:
    rig.write_experiment(TINY.replace("rounds = 2", "rounds = 16"))
    (rig.folder / "faults.toml").write_text(KILLS)
    lab = rig.start(
        *("lab", "fl_server", "lab", "tiny.toml", "--boards", "2", "--faults", "faults.toml"),
        *("--run", "r", "--runs", str(rig.runs), "--set", "aggregation.buffer=2"),
        *("--set", "evaluation.every=4", "--set", "training.epochs=2"),
    )
    assert lab.wait(240) == 0, rig.log("lab")
    assert len([e for e in rig.events() if e["event"] == "fault"]) == 4
    assert any(age for line in rig.metrics() for age in line.get("staleness", ()))
    again = rig.start("again", "fl_server", "recompute", "r", "--runs", str(rig.runs))
    assert again.wait(120) == 0, rig.log("again")
    assert "same bits: 16 rounds with" in rig.log("again")
    assert rig.digest() in rig.log("again")
