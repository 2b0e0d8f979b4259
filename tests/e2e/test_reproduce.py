"""fl-server reproduce as people use it: killed, started again, and looked at."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fl_server.run.journal import read_records
from tests.e2e.rig import PATIENCE, eventually

pytestmark = pytest.mark.slow


def command(*arguments: str) -> list[str]:
    shorter = ("--set", "experiment.rounds=3", "--set", "training.epochs=1")
    return [sys.executable, "-m", "fl_server", "reproduce", "mini", *shorter, *arguments]


def test_a_study_that_was_killed_goes_on_and_ends_with_its_table(tmp_path: Path) -> None:
    second = tmp_path / "runs" / "mini-fedrod-s1"
    killed = subprocess.Popen(
        command("--plain"), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        eventually(
            lambda: killed.poll() is not None or read_records(second / "events.jsonl"),
            "the second run has begun",
        )
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    assert not (tmp_path / "runs" / "mini-fedreg-s1").exists()
    done = subprocess.run(
        command("--plain", "-o", "page"),
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "1 of 3 runs are finished already" in done.stdout
    assert "all 3 runs are finished" in done.stdout
    for name in ("mini-fedavg-s1", "mini-fedrod-s1", "mini-fedreg-s1"):
        lines = read_records(tmp_path / "runs" / name / "metrics.jsonl")
        assert [line["round"] for line in lines] == [0, 1, 2, 3]
    assert (tmp_path / "page" / "study-mini.md").read_text().count("1 of 1") == 3
    machine = json.loads((second / "machine.json").read_text())
    assert machine["torch"]


def test_studies_are_listed_with_the_time_that_they_take(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fl_server", "reproduce", "--list"],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "table6" in done.stdout
    assert "thesis-testbed" in done.stdout
