"""The example of sensor readings, run by the command in its README."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fl_server.run.journal import read_records

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "own" / "sensors"
PATIENCE = 300.0


def test_the_script_makes_the_readings_that_are_there() -> None:
    spec = importlib.util.spec_from_file_location("make_readings", EXAMPLE / "make_readings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for board in range(4):
        path = EXAMPLE / "boards" / str(board) / "readings.csv"
        assert path.read_text().splitlines() == module.lines_of(board)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_commands_of_its_readme_learn_the_power_with_the_same_bits(tmp_path: Path) -> None:
    text = (EXAMPLE / "README.md").read_text()
    commands = re.findall(r"^\.venv/bin/fl-server ((?:lab|simulate) .*)$", text, re.M)
    assert [command.split()[0] for command in commands] == ["lab", "simulate"]
    digests = set()
    for at, command in enumerate(commands):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "fl_server", *shlex.split(command), "--plain"),
                *("--runs", str(tmp_path), "--run", f"r{at}"),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        folder = tmp_path / f"r{at}"
        digests.add(read_records(folder / "events.jsonl")[-1]["digest"])
        last = read_records(folder / "metrics.jsonl")[-1]
        assert last["mse_global"] < 0.1
    assert len(digests) == 1
