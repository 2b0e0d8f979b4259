"""The whole thing over a real broker: same bits as the simulation, nine topics, results."""

from __future__ import annotations

import json

import pytest

from common.wire.topics import TOPICS
from tests.e2e.rig import Rig, boards, eventually

pytestmark = pytest.mark.slow


def test_over_the_wire_and_simulated_in_one_or_two_processes_give_the_same_bits(
    rig: Rig,
) -> None:
    boards(rig, ["0,1", "2-3"])
    rig.finish(rig.coordinator())
    wire = rig.digest()
    assert rig.simulate(name="one") == wire
    assert rig.simulate("--processes", "2", name="two") == wire
    accuracy = [(line["round"], line["accuracy_global"]) for line in rig.metrics()]
    assert accuracy == [(line["round"], line["accuracy_global"]) for line in rig.metrics("one")]
    assert [at for at, _ in accuracy] == [0, 1, 2]
    assert (accuracy[-1][1] or 0) > 0.4


@pytest.mark.parametrize(("encoding", "most"), [("float16", 0.55), ("int8", 0.3)])
def test_a_lossy_encoding_gives_the_same_bits_over_the_wire_and_simulated_in_fewer_bytes(
    rig: Rig, encoding: str, most: float
) -> None:
    chosen = ("--set", f"communication.encoding={encoding}")
    boards(rig, ["0,1", "2-3"])
    rig.finish(rig.coordinator(*chosen))
    assert rig.simulate(*chosen, name="lossy") == rig.digest()
    assert rig.simulate(name="exact") != rig.digest()
    sent = {run: rig.metrics(run)[-1]["bytes_up"] for run in ("lossy", "exact")}
    assert sent["lossy"] < most * sent["exact"]
    assert (rig.metrics()[-1]["accuracy_global"] or 0) > 0.4


def test_all_nine_topics_carry_their_documented_retained_flags(rig: Rig) -> None:
    early = rig.listen()
    boards(rig, ["0-3"])
    # a model that needs two parts, and rounds long enough to look at in the middle
    experiment = rig.folder / "tiny.toml"
    experiment.write_text(experiment.read_text().replace('"dnn"', '"convnet"'))
    server = rig.coordinator("--set", "selection.rate=0.25")
    eventually(lambda: "round_closed" in rig.kinds(), "the first round")
    late = rig.listen()
    rig.finish(server)
    for row in TOPICS:
        prefix = f"fl/{row.pattern.removesuffix('+')}"
        assert any(t.startswith(prefix) for t in early.topics()), f"nothing on {row.name}"
        stored = any(t.startswith(prefix) and flag for t, _, flag, _ in late.heard)
        assert stored == (row.retained and row.name != "train_end"), row.name
    after = rig.listen()
    eventually(lambda: "fl/train/end" in after.topics(), "train_end is retained")
    assert all(flag for *_, flag, _ in after.heard)
    assert not any("send_weights" in topic for topic in after.topics()), "weights are cleared"


def test_a_second_experiment_on_the_same_boards_does_not_meet_the_first(rig: Rig) -> None:
    boards(rig, ["0-1", "2-3"])
    rig.finish(rig.coordinator())
    rig.finish(rig.coordinator("--run", "again", name="again"), "again")
    assert rig.digest("again") == rig.digest()
    assert not {"message_dropped", "problem", "failed"} & set(rig.kinds("again"))


def test_the_run_folder_has_what_the_readme_says(rig: Rig) -> None:
    boards(rig, ["0-3"])
    rig.finish(rig.coordinator("--set", "experiment.seed=7", "--set", "selection.rate=0.5"))
    folder = rig.runs / "r"
    names = {path.name for path in folder.iterdir()}
    assert {"experiment.toml", "metrics.jsonl", "events.jsonl", "model.safetensors"} <= names
    assert "seed = 7" in (folder / "experiment.toml").read_text()
    assert rig.metrics()[1]["updates"] == 2
    assert rig.kinds()[0] == "started"
    assert rig.kinds()[-1] == "finished"
    assert json.loads((folder / "run.json").read_text())["finished"] is True
    assert not (folder / "journal").exists()
