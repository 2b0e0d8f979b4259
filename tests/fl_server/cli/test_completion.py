"""What the shell is told when somebody presses Tab."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from fl_server.cli import main


def completed(*words: str) -> list[str]:
    """What may stand in place of the last word."""
    completion = ShellComplete(main, {}, "fl-server", "_FL_SERVER_COMPLETE")
    return [item.value for item in completion.get_completions(list(words[:-1]), words[-1])]


@pytest.fixture(autouse=True)
def some_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "runs/demo-1",
        "runs/demo-central",
        "runs/other-1",
        "runs/.lab",
        "mine/demo-9",
    ):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "experiment.toml").touch()
    (tmp_path / "runs" / "demo-lab").mkdir()  # no run
    monkeypatch.chdir(tmp_path)


def test_commands_are_completed() -> None:
    assert completed("rep") == ["replay", "report", "reproduce"]


@pytest.mark.parametrize("command", ["resume", "pause", "stop", "report", "diff"])
def test_runs_are_completed(command: str) -> None:
    assert completed(command, "demo") == ["demo-1", "demo-central"]


def test_runs_are_those_of_the_folder_that_is_named() -> None:
    assert completed("resume", "--runs", "mine", "") == ["demo-9"]


def test_the_second_model_of_a_diff_is_completed_as_well() -> None:
    assert completed("diff", "demo-1", "o") == ["other-1"]


def test_algorithms_and_studies_are_completed() -> None:
    assert completed("algorithms", "fedre") == ["fedreb", "fedreg", "fedrep"]
    assert completed("reproduce", "min") == ["mini"]
