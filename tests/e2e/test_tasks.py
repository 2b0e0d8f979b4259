"""Tasks as a user runs them: an example's own functions, numbers, labels, wrong input."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from common.rng import generator
from fl_server.cli import main
from fl_server.run.journal import read_records

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "own" / "algorithm"
NUMBERS = """
[experiment]
rounds = 2
[model]
name = "dnn"
hidden = 8
[data]
dataset = "npz:data.npz"
clients = 2
partition = "iid"
"""


def simulate(file: Path, runs: Path, *more: str) -> Result:
    arguments = ["simulate", str(file), "--plain", "--runs", str(runs), *more]
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def write(folder: Path, targets: str = "numbers") -> Path:
    rng = generator(1, "tasks")
    features = rng.standard_normal((120, 3)).astype(np.float32)
    answers = {
        "numbers": features.sum(axis=1),
        "labels": (features > 0).astype(np.uint8),
    }
    np.savez(folder / "data.npz", features=features, target=answers[targets])
    file = folder / "task.toml"
    file.write_text(NUMBERS)
    return file


@pytest.mark.slow
def test_the_example_runs_by_the_command_in_its_readme(tmp_path: Path) -> None:
    commands = re.findall(
        r"^\.venv/bin/fl-server (.*)$", (EXAMPLE / "README.md").read_text(), re.M
    )
    assert commands == ["simulate examples/own/algorithm/experiment.toml"]
    done = simulate(EXAMPLE / "experiment.toml", tmp_path, "--set", "experiment.rounds=2")
    assert done.exit_code == 0, done.output
    first, *_, last = read_records(tmp_path / "experiment-1" / "metrics.jsonl")
    for name in ("accuracy", "macro_f1", "sureness"):
        assert 0 <= first[f"{name}_global"] < last[f"{name}_global"] <= 1
    assert last["loss_global"] < first["loss_global"]


@pytest.mark.slow
def test_numbers_and_labels_are_learned_and_reported_as_what_they_are(tmp_path: Path) -> None:
    file = write(tmp_path)
    done = simulate(file, tmp_path / "runs")
    assert done.exit_code == 0, done.output
    assert "best mse: global 0." in done.output
    first, *_, last = read_records(tmp_path / "runs" / "task-1" / "metrics.jsonl")
    assert last["mse_global"] < first["mse_global"]
    assert last["r2_global"] > first["r2_global"]
    assert "rho_l1" not in last
    report = CliRunner().invoke(main, ["report", "task-1", "--runs", str(tmp_path / "runs")])
    assert "Rounds to a global mse" in report.output
    write(tmp_path, "labels")
    done = simulate(file, tmp_path / "runs")
    assert "best micro_f1: global" in done.output
    both = CliRunner().invoke(main, ["report", "--runs", str(tmp_path / "runs")])
    assert "different main metrics: mse (task-1), micro_f1 (task-2)" in both.output
    refused = simulate(file, tmp_path / "runs", "--set", "algorithm.name=fedrod")
    assert "needs samples of one class each, but task.kind is 'multi-label'" in refused.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("return (outputs - targets) ** 2", "a tensor of shape [10]; expected one number"),
        ("return outputs.missing", "(own.py:2)"),
        ("return (outputs - targets).mean() * float('nan')", "returned nan for outputs"),
    ],
)
def test_a_loss_with_a_bug_is_one_line_and_no_traceback(
    tmp_path: Path, code: str, words: str
) -> None:
    file = write(tmp_path)
    (tmp_path / "own.py").write_text(f"def loss(outputs, targets):\n    {code}\n")
    settings = ("--set", "task.loss=own.py:loss", "--set", "training.batch_size=10")
    done = simulate(file, tmp_path / "runs", *settings)
    assert done.exit_code != 0
    assert words in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("task.kind=classification", "is not a class; expected 0 to"),
        ("task.loss=cross-entropy", "task.loss is 'cross-entropy'; for regression expected"),
        ("task.loss=gone.py:loss", "task.loss is 'gone.py:loss', but there is no gone.py in"),
        ('task.metrics=["accuracy"]', "task.metrics has 'accuracy'; for regression expected"),
        ("task.main=r3", "task.main is 'r3', which is not measured"),
        ("task.levels=[nan]", "task.levels"),
        ("task.kind=clustering", "task.kind is 'clustering'; expected"),
    ],
)
def test_a_task_that_does_not_fit_the_data_is_refused_before_anything_starts(
    tmp_path: Path, setting: str, words: str
) -> None:
    done = simulate(write(tmp_path), tmp_path / "runs", "--set", setting)
    assert done.exit_code != 0
    assert words in done.output
    assert "Traceback" not in done.output
    assert not (tmp_path / "runs").exists()
