from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fl_server.cli import main

EXPERIMENT = """
[model]
name = "dnn"
[data]
clients = 4
[selection]
rate = 0.5
[training]
epochs = 2
"""


def check(tmp_path: Path, *words: str, text: str = EXPERIMENT) -> Result:
    file = tmp_path / "x.toml"
    file.write_text(text)
    return CliRunner().invoke(main, ["check", str(file), *words])


def test_a_good_experiment_ends_with_how_to_run_it(tmp_path: Path) -> None:
    done = check(tmp_path)
    assert done.exit_code == 0
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[:2] == [
        "experiment 10 rounds of fedavg; in each, 2 of 4 clients train for 2 epochs",
        "model dnn, 79,510 parameters (1,010 of them in the head)",
    ]
    assert lines[2].startswith("data fmnist-mini, 10,000 samples, found in /")
    assert "traffic in each round 318.5 kB to every board" in lines[3]
    assert lines[3].endswith("636.9 kB up; in all rounds 6.4 MB up")
    assert lines[4].startswith("memory a board needs about ")
    assert lines[5] == f"{tmp_path}/x.toml can be run: fl-server lab {tmp_path}/x.toml"


def no_network(*_: object) -> Path:
    raise OSError("no network")


def test_every_problem_is_listed_and_the_exit_code_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("common.data.datasets.SYSTEM", tmp_path / "nothing")
    monkeypatch.setenv("FEDBED_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "nothing"))
    monkeypatch.setattr("common.data.datasets.download", no_network)
    words = ("model.init_weights=none.safetensors", "model.warm_up=2", "data.dataset=mnist")
    done = check(tmp_path, *(word for each in words for word in ("--set", each)))
    problems = [line for line in done.stdout.splitlines() if line.startswith("problem ")]
    assert done.exit_code == 2
    assert f"model.init_weights is '{tmp_path}/none.safetensors'" in problems[0]
    assert "model.warm_up needs samples to train on; set data.share, too" in problems[1]
    assert "mnist is not in " in problems[2]
    assert "cannot be run: 3 problems" in done.stderr


def test_notes_do_not_stop_an_experiment(tmp_path: Path) -> None:
    done = check(
        tmp_path, "--set", "experiment.min_updates=3", "--set", "training.batch_size=9999"
    )
    assert done.exit_code == 0
    assert "x.toml can be run, but see 2 notes above" in done.stdout


def test_the_complete_experiment_is_there_for_those_who_ask(tmp_path: Path) -> None:
    assert "[communication]" not in check(tmp_path).stdout
    assert "[communication]" in check(tmp_path, "--all").stdout


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        (f"experiment.rounds={10**23}", "expected int <= 1000000"),
        (f"training.epochs={10**23}", "expected int <= 1000000"),
        (f"training.batch_size={10**23}", "expected int <= 1000000"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused(
    tmp_path: Path, setting: str, problem: str
) -> None:
    done = check(tmp_path, "--set", setting)
    assert done.exit_code == 2
    assert problem in done.stderr
