"""Data that never leaves its board: four daemons, a coordinator that opens no file of it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from common.rng import generator
from tests.e2e.rig import PATIENCE, Rig, eventually

pytestmark = pytest.mark.slow

EXPERIMENT = """
[experiment]
rounds = 3
grace = "forever"
[model]
name = "dnn"
[data]
dataset = "csv:readings.csv"
target = "fault"
clients = 4
partition = "local"
report_classes = true
[data.schema]
kind = "classification"
outputs = 2
names = ["no", "yes"]
columns = [{name = "volt"}, {name = "site", categories = ["in", "out"]}]
[training]
epochs = 20
batch_size = 10
"""
# the coordinator, in a process that notes every file and folder below the data that it opens
AUDITED = """
import os, runpy, sys
data = os.environ["AUDITED_DATA"]
log = os.open(os.environ["AUDIT_LOG"], os.O_CREAT | os.O_WRONLY | os.O_APPEND)
def note(event, arguments):
    if data in repr(arguments):
        os.write(log, f"{event} {arguments}\\n".encode())
sys.addaudithook(note)
os.write(log, b"begun\\n")
runpy.run_module("fl_server", run_name="__main__")
"""


def readings(path: Path, client: int) -> None:
    rng = generator(client, "readings")
    lines = ["volt,site,fault"]
    for _ in range(30 + 10 * client):
        volt, site = rng.normal(230 + 5 * client, 4), ("in", "out")[rng.integers(2)]
        fault = "yes" if volt > 236 + 4 * (site == "out") else "no"
        lines.append(f"{volt:.3f},{site},{fault}")
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(lines) + "\n")


def test_data_stays_on_its_board_whatever_dies(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = rig.folder / "private-data"
    for client in range(4):
        readings(data / str(client) / "readings.csv", client)
    rig.write_experiment(EXPERIMENT)
    (rig.folder / "audited_server.py").write_text(AUDITED)
    monkeypatch.setenv("AUDITED_DATA", str(data))
    audit = rig.folder / "audit.log"
    monkeypatch.setenv("AUDIT_LOG", str(audit))

    def daemon(client: int) -> subprocess.Popen[bytes]:
        allowed = () if client == 3 else ("--class-counts",)
        return rig.daemon(f"b{client}", str(client), "--data", str(data), *allowed)

    def server(*command: str) -> subprocess.Popen[bytes]:
        where = ("--broker", f"127.0.0.1:{rig.port}", "--runs", str(rig.runs), "--plain")
        return rig.start("server", "audited_server", *command, *where)

    wrong = data / "2" / "readings.csv"
    right = wrong.read_text()
    wrong.write_text(right.replace("volt,", "voltage,"))
    ear = rig.listen()
    boards = [daemon(client) for client in range(4)]
    first = server("run", str(rig.folder / "tiny.toml"), "--run", "r")
    problems = eventually(
        lambda: [m["problem"] for m in ear.messages("connected/b2") if m["problem"]],
        "a problem",
    )
    assert "client 2 does not fit" in problems[0]
    assert "readings.csv has no column 'volt', which the schema has" in problems[0]
    wrong.write_text(right)

    eventually(lambda: rig.runs.exists() and "update" in rig.kinds(), "an update")
    for process in (first, boards[0]):
        process.kill()
        process.wait()
    # what the board began with counts, though its file has grown meanwhile
    grown = data / "0" / "readings.csv"
    before = grown.read_text()
    grown.write_text(before + "1.0,in,yes\n")
    daemon(0)
    again = server("resume", "r")
    assert again.wait(PATIENCE) == 0, rig.log("server")

    told = json.loads((rig.runs / "r" / "data.json").read_text())
    assert [one["train"] for one in told["clients"].values()] == [23, 30, 38, 45]
    assert [len(one.get("classes", ())) for one in told["clients"].values()] == [2, 2, 2, 0]
    shown = rig.start("show", "fl_server", "data", "show", str(rig.runs / "r/experiment.toml"))
    assert shown.wait(PATIENCE) == 0
    assert "4 clients, as boards reported" in rig.log("show")
    assert "136 samples to train" in rig.log("show")
    assert audit.read_text() == "begun\n" * 2, "the coordinator opened the data"
    grown.write_text(before)
    assert rig.digest() == rig.simulate_apart("--data", str(data))
    # a simulation reads the data itself, which the same audit notices
    command = ("simulate", str(rig.folder / "tiny.toml"), "--data", str(data), "--run", "seen")
    seen = rig.start("seen", "audited_server", *command, "--runs", str(rig.runs), "--plain")
    assert seen.wait(PATIENCE) == 0, rig.log("seen")
    assert "readings.csv" in audit.read_text()
