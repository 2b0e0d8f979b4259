"""Sweeps and reports as people use them: real runs, real processes, real files."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from common.arrays import digest
from fl_server.run.journal import read_records
from fl_server.run.model.file import read_model
from tests.e2e.rig import PATIENCE, alive, eventually, family

TINY = """
[experiment]
name = "tiny"
rounds = {rounds}
grace = "forever"
[model]
name = "dnn"
[data]
clients = 4
alpha = 1.0
[training]
epochs = 1
batch_size = 50
[sweep]
"algorithm.name" = ["fedavg", "fedper"]
"""

pytestmark = pytest.mark.slow


def server(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fl_server", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def sweep(folder: Path, *more: str, where: tuple[str, ...] = ("--simulate",)) -> list[str]:
    (folder / "tiny.toml").write_text(TINY.format(rounds=2))
    return ["sweep", "tiny.toml", "--plain", *where, *more]


def model_of(run: Path) -> str:
    return digest(read_model(run / "model.safetensors"))


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two algorithms with two seeds each, done."""
    folder = tmp_path_factory.mktemp("swept")
    done = server(folder, *sweep(folder, "--seeds", "1,2"))
    assert done.returncode == 0, done.stderr
    assert "4/4 runs done" in done.stdout
    assert "full report: fl-server report" in done.stdout
    return folder


def test_a_sweep_skips_what_is_finished(swept: Path) -> None:
    model = swept / "runs" / "tiny-fedavg-s1" / "model.safetensors"
    before = model.stat().st_mtime_ns
    again = server(swept, *sweep(swept, "--seeds", "1,2"))
    assert again.returncode == 0, again.stderr
    assert "4 of 4 runs are finished already" in again.stdout
    assert model.stat().st_mtime_ns == before


def test_other_settings_under_the_same_name_are_refused(swept: Path) -> None:
    done = server(swept, *sweep(swept, "--seeds", "1", "--set", "training.epochs=2"))
    assert done.returncode == 2
    assert "of another experiment" in done.stderr


def test_a_report_is_one_page_that_needs_nothing_else(swept: Path) -> None:
    done = server(swept, "report", "-o", "report", "--tensorboard")
    assert done.returncode == 0, done.stderr
    page = (swept / "report" / "index.html").read_text()
    assert not re.search(r"https?:|src=|@import|url\((?!#)", page)
    assert "fedavg" in page
    assert page.count("<svg") == 8
    wanted = {"results.csv", "results.md", "results.tex", "accuracy.pdf", "accuracy.svg"}
    assert wanted <= {path.name for path in (swept / "report").iterdir()}
    assert len(list((swept / "runs").glob("*/tensorboard/events.out.tfevents.*"))) == 4


def test_a_report_in_the_terminal_stands_beside_published_numbers(swept: Path) -> None:
    (swept / "reference.toml").write_text(
        "title = 'Theirs'\nsource = 'A paper.'\n[columns]\nglobal = 'accuracy_global'\n"
        "[rows]\nfedavg = { global = 99.0 }\n"
    )
    done = server(swept, "report", "--compare", "reference.toml", "--levels", "20")
    assert done.returncode == 0, done.stderr
    for words in ("Results", "Theirs", "99.00", "20 %", "fedper"):
        assert words in done.stdout


def test_metrics_load_line_by_line_as_pandas_reads_them(swept: Path) -> None:
    path = swept / "runs" / "tiny-fedper-s2" / "metrics.jsonl"
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    assert [line["round"] for line in lines] == [0, 1, 2]
    assert all({"accuracy_global", "mean_l1", "rho_l2"} <= line.keys() for line in lines)


def test_a_run_that_fails_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(
        "from dataclasses import replace\n"
        "from common.algorithms.fedavg import fedavg\n"
        "def fail(*_):\n    raise RuntimeError('out of ideas')\n"
        "def builder():\n    return replace(fedavg(), server_update=fail)\n"
    )
    text = TINY.format(rounds=1).replace('"fedavg"', '"broken:builder"')
    (tmp_path / "tiny.toml").write_text(text)
    done = server(tmp_path, "sweep", "tiny.toml", "--plain", "--simulate")
    assert done.returncode == 1
    assert "failed: tiny-broken_builder-s1: fail of fedavg" in done.stderr
    assert "RuntimeError: out of ideas (broken.py:4)" in done.stderr
    assert "1 of 2 runs failed" in done.stderr
    assert (tmp_path / "runs" / "tiny-fedper-s1" / "model.safetensors").exists()


@pytest.mark.parametrize("where", [("--simulate",), ("--lab", "2")], ids=["simulate", "lab"])
def test_a_killed_sweep_goes_on_in_the_middle_of_the_interrupted_run(
    tmp_path: Path, swept: Path, where: tuple[str, ...]
) -> None:
    command = [sys.executable, "-m", "fl_server", *sweep(tmp_path, where=where)]
    second = tmp_path / "runs" / "tiny-fedper-s1"
    killed = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        eventually(
            lambda: killed.poll() is not None or read_records(second / "events.jsonl"),
            "the second run has begun",
        )
        below = family(killed.pid)
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    eventually(lambda: not any(map(alive, below[1:])), "the boards end with their sweep")
    done = server(tmp_path, *sweep(tmp_path, where=where))
    assert done.returncode == 0, done.stderr
    assert "of 2 runs are finished already" in done.stdout
    for name in ("tiny-fedavg-s1", "tiny-fedper-s1"):
        assert model_of(tmp_path / "runs" / name) == model_of(swept / "runs" / name)
        rounds = [
            line["round"] for line in read_records(tmp_path / "runs" / name / "clients.jsonl")
        ]
        assert rounds == [0, 1, 2]


def test_a_run_for_machines_writes_one_object_per_line(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(TINY.format(rounds=1).partition("[sweep]")[0])
    done = server(tmp_path, "simulate", "one.toml", "--log-format", "json", "--tensorboard")
    assert done.returncode == 0, done.stderr
    events = [json.loads(text)["event"] for text in done.stdout.splitlines()]
    assert {"started", "trained", "round_closed", "evaluated", "finished"} <= set(events)
    assert list((tmp_path / "runs" / "tiny-1" / "tensorboard").iterdir())


def test_a_quiet_run_says_only_how_it_ended(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(TINY.format(rounds=1).partition("[sweep]")[0])
    done = server(tmp_path, "simulate", "one.toml", "-q")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert "finished; model" in line


def test_a_sweep_of_a_fleet_shows_what_reaches_an_accuracy_first_on_it(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.toml"
    fleet.write_text('[[group]]\nname = "a"\nboards = 2\nboard = "jetson-nano"\nlink = "lte"\n')
    settings = (
        "--fleet",
        str(fleet),
        "--set",
        "experiment.rounds=1",
        "--set",
        "task.levels=[0.05]",
        *("--set", "aggregation.buffer=2"),
    )
    done = server(tmp_path, *sweep(tmp_path, *settings))
    assert done.returncode == 0, done.stderr
    assert "Time to a global accuracy" in done.stdout
    assert "Energy to a global accuracy" in done.stdout
    fleet.write_text(fleet.read_text().replace("lte", "ethernet"))
    other = server(tmp_path, *sweep(tmp_path, *settings))
    assert other.returncode == 2
    assert "was begun with another fleet file" in other.stderr
