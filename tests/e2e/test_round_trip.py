"""The whole thing over a real broker: same bits as the simulation, nine topics, results."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from broker.process import Broker
from common.wire.topics import TOPICS
from common.worker.forking import ForkServer
from tests.e2e.rig import Rig, boards, eventually

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def both(
    broker: Broker, fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rig]:
    """Two boards that stay for several runs, and the simulation of what they do."""
    folder = tmp_path_factory.mktemp("both")
    rig = Rig(broker.port, folder, federation=folder.name, fork_server=fork_server)
    rig.write_experiment()
    boards(rig, ["0,1", "2-3"])
    rig.simulate(name="exact")
    yield rig
    rig.close()


def test_over_the_wire_and_simulated_give_the_same_bits_also_a_second_time(both: Rig) -> None:
    """And the second experiment on the same boards does not meet the first."""
    for name in ("first", "second"):
        both.finish(both.coordinator("--run", name, name=name), name)
        assert both.digest(name) == both.digest("exact")
        assert not {"message_dropped", "problem", "failed"} & set(both.kinds(name))
    assert both.simulate_apart("--processes", "2", name="two") == both.digest("exact")
    accuracy = [(line["round"], line["accuracy_global"]) for line in both.metrics("first")]
    exact = [(line["round"], line["accuracy_global"]) for line in both.metrics("exact")]
    assert accuracy == exact
    assert [at for at, _ in accuracy] == [0, 1, 2]
    assert (accuracy[-1][1] or 0) > 0.4


@pytest.mark.parametrize(("encoding", "most"), [("float16", 0.55), ("int8", 0.3)])
def test_a_lossy_encoding_gives_the_same_bits_over_the_wire_and_simulated_in_fewer_bytes(
    both: Rig, encoding: str, most: float
) -> None:
    chosen = f"communication.encoding={encoding}"
    both.finish(both.coordinator("--set", chosen, "--run", encoding, name=encoding), encoding)
    lossy = f"{encoding}-simulated"
    assert both.simulate(chosen, name=lossy) == both.digest(encoding) != both.digest("exact")
    sent = {run: both.metrics(run)[-1]["bytes_up"] for run in (lossy, "exact")}
    assert sent[lossy] < most * sent["exact"]
    assert (both.metrics(encoding)[-1]["accuracy_global"] or 0) > 0.4


def test_all_nine_topics_carry_their_documented_retained_flags(rig: Rig) -> None:
    early = rig.listen()
    boards(rig, ["0-3"])
    # a model that needs two parts, and rounds long enough to look at in the middle
    experiment = rig.folder / "tiny.toml"
    experiment.write_text(experiment.read_text().replace('"dnn"', '"convnet"'))
    server = rig.coordinator("--set", "selection.rate=0.25")
    eventually(lambda: early.messages("receive_info"), "training: all is said by now")
    late = rig.listen()
    rig.finish(server)
    for row in TOPICS:
        prefix = f"fl/{row.pattern.removesuffix('+')}"
        eventually(lambda: any(t.startswith(prefix) for t in early.topics()), row.name)  # noqa: B023 - called here
        stored = any(t.startswith(prefix) and flag for t, _, flag, _ in late.heard)
        assert stored == (row.retained and row.name != "train_end"), row.name
    after = rig.listen()
    after.say("fl/mark", b"{}")  # follows all that is stored
    eventually(lambda: "fl/mark" in after.topics(), "all that is stored")
    left = {topic for topic, _, flag, _ in after.heard if flag}
    assert "fl/train/end" in left
    assert not any("send_weights" in topic for topic in after.topics()), "weights are cleared"


def test_the_run_folder_has_what_the_readme_says(both: Rig) -> None:
    chosen = ("--set", "experiment.seed=7", "--set", "selection.rate=0.5")
    both.finish(both.coordinator(*chosen, "--run", "half", name="half"), "half")
    folder = both.runs / "half"
    names = {path.name for path in folder.iterdir()}
    assert {"experiment.toml", "metrics.jsonl", "events.jsonl", "model.safetensors"} <= names
    assert "seed = 7" in (folder / "experiment.toml").read_text()
    assert both.metrics("half")[1]["updates"] == 2
    assert both.kinds("half")[0] == "started"
    assert both.kinds("half")[-1] == "finished"
    assert json.loads((folder / "run.json").read_text())["finished"] is True
    assert not (folder / "journal").exists()
