"""`fl-server runs` and `fl-server diff` on folders of real runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

from common.arrays import digest
from common.disk.lock import FolderLock
from common.experiment.file import parse_experiment
from common.learning.inputs import normalised
from fl_server.central.load import load_run
from fl_server.cli import main
from fl_server.coordinator.local_clients import make_local_clients
from fl_server.coordinator.simulate import Simulation
from fl_server.run.model.file import read_model, write_model
from fl_server.run.store import create_run

TINY: dict[str, Any] = {
    "experiment": {"name": "tiny", "rounds": 1},
    "model": {"name": "dnn", "hidden": 4},
    "data": {"clients": 3, "partition": "iid", "max_samples": 12},
    "training": {"epochs": 1},
}


def call(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same experiment twice, another seed once, and one that has only begun."""
    root = tmp_path_factory.mktemp("runs")
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        table = {**TINY, "experiment": {**TINY["experiment"], "seed": seed}}
        store = create_run(root, name, parse_experiment(table))
        Simulation(
            store,
            clients=make_local_clients(1),
            shards=root / ".shards",
            observe=lambda _: None,
        ).run()
    create_run(root, "begun", parse_experiment(TINY))
    return root


def test_runs_lists_state_settings_results_and_digest(runs: Path) -> None:
    found = {
        line["name"]: line
        for line in map(json.loads, call("runs", "--json", "--runs", runs).output.splitlines())
    }
    assert set(found) == {"a", "b", "c", "begun"}
    assert found["a"]["state"] == "finished"
    assert (found["a"]["algorithm"], found["a"]["dataset"]) == ("fedavg", "fmnist-mini")
    assert (found["c"]["seed"], found["c"]["done"], found["c"]["of"]) == (2, 1, 1)
    assert found["a"]["digest"] == found["b"]["digest"] != found["c"]["digest"]
    assert found["begun"]["state"] == "unfinished"
    assert found["begun"]["digest"] == ""


def test_a_run_that_a_process_works_on_is_running(runs: Path) -> None:
    with FolderLock(runs / "begun", "a test"):
        lines = call("runs", "--json", "--runs", runs).output.splitlines()
    states = {line["name"]: line["state"] for line in map(json.loads, lines)}
    assert states["begun"] == "running"


def test_a_damaged_run_is_named_and_the_others_are_listed(runs: Path) -> None:
    broken = runs / "broken"
    broken.mkdir()
    (broken / "experiment.toml").write_text("[experiment")
    found = call("runs", "--runs", runs)
    (broken / "experiment.toml").unlink()
    assert found.exit_code == 0
    assert "cannot be read: broken" in found.output
    assert "begun" in found.output


def test_an_empty_folder_says_how_to_start(tmp_path: Path) -> None:
    assert "fl-server lab" in call("runs", "--runs", tmp_path).output


def test_equal_models_are_equal_files_and_diff_says_so(runs: Path) -> None:
    first, second = (runs / name / "model.safetensors" for name in "ab")
    assert first.read_bytes() == second.read_bytes()
    found = call("diff", "a", "b", "--runs", runs)
    assert found.exit_code == 0
    assert digest(read_model(first)) in found.output


def test_diff_says_where_two_models_differ(runs: Path, tmp_path: Path) -> None:
    model = read_model(runs / "a" / "model.safetensors")
    name = min(model)
    changed = {**model, name: model[name].copy(), "more": np.zeros(2, np.float32)}
    changed[name].flat[0] += 0.5
    write_model(tmp_path / "other.safetensors", changed)
    found = call("diff", "a", tmp_path / "other.safetensors", "--runs", runs)
    assert found.exit_code == 1
    assert f"2 of {len(changed)} arrays differ" in found.output
    assert f"1 of {model[name].size}" in found.output
    assert "only in the second" in found.output


def test_zeros_of_different_sign_are_different_bits(tmp_path: Path) -> None:
    for name, value in (("a", 0.0), ("b", -0.0)):
        write_model(tmp_path / name, {"x": np.array([value], np.float32)})
    assert call("diff", tmp_path / "a", tmp_path / "b").exit_code == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [("nobody", "no run 'nobody'"), ("begun", "is not finished")],
)
def test_diff_names_what_is_not_there(runs: Path, name: str, text: str) -> None:
    found = call("diff", "a", name, "--runs", runs)
    assert found.exit_code == 2
    assert text in found.output


def test_a_run_loads_into_torch(runs: Path) -> None:
    network = load_run(runs / "a")
    with torch.inference_mode():
        answers = network(normalised(np.zeros((2, 1, 28, 28), np.uint8)))
    assert answers.shape == (2, 10)
    held = {name: value.numpy() for name, value in network.state_dict().items()}
    assert digest(held) == digest(read_model(runs / "a" / "model.safetensors"))


def test_a_centralized_training_of_an_own_model_is_found_and_loaded_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, elsewhere = tmp_path / "mine", tmp_path / "elsewhere"
    mine.mkdir()
    elsewhere.mkdir()
    (mine / "nets.py").write_text(
        "from torch import nn\n\n\ndef flat(shape, classes):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(784, classes))\n"
    )
    (mine / "x.toml").write_text(
        "[model]\nname = 'nets.py:flat'\n[data]\nclients = 3\npartition = 'iid'\n"
        "max_samples = 12\n[central]\nepochs = 1\n"
    )
    found = call("central", mine / "x.toml", "--runs", tmp_path / "runs", "--run", "c")
    assert found.exit_code == 0, found.output
    monkeypatch.chdir(elsewhere)
    listed = call("runs", "--runs", "../runs")
    assert "centralized" in listed.output
    assert "cannot be read" not in listed.output
    assert load_run("../runs/c")(torch.zeros(1, 1, 28, 28)).shape == (1, 10)
