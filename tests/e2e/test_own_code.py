"""Users' own code: beside the experiment, on boards, with mistakes in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from common.plugins import use_code
from fl_server.cli import main
from fl_server.reports.runs import read_run
from tests.e2e.rig import TINY, Rig, eventually

EXPERIMENT = TINY + '[algorithm]\nname = "mine.py:cautious"\n'
HELPER = "def part(old, new):\n    return old + (new - old) / 2\n"
CODE = """
from dataclasses import replace

import helper
from common.algorithms.fedavg import fedavg


def cautious():
    parent = fedavg()

    def client_update(client, state, download):
        return parent.client_update(client, state, download)

    def server_update(server, state, updates):
        mean = server.mean(updates)
        return {name: helper.part(state[name], mean[name]) for name in state}

    return replace(parent, client_update=client_update, server_update=server_update)
"""


def write_code(folder: Path, code: str = CODE, helper: str = HELPER) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "mine.py").write_text(code)
    (folder / "helper.py").write_text(helper)
    (folder / "x.toml").write_text(EXPERIMENT)
    return folder / "x.toml"


def simulate(file: Path, *more: str) -> Result:
    use_code(None)  # each of them would be a process of its own
    words = ["simulate", str(file), "--run", "r", "--runs", str(file.parent / "runs")]
    return CliRunner().invoke(main, [*words, "-q", "--set", "data.max_samples=60", *more])


def events(folder: Path) -> list[dict[str, object]]:
    lines = (folder / "runs/r/events.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


WRONG_SERVER = CODE.replace("mean = server.mean(updates)", "mean = updates[99 // 0]")
WRONG_RESULT = CODE.replace("return {name: helper", "return None and {name: helper")
WRONG_KIND = CODE.replace("mean[name]) for", "mean[name]).astype('float64') for")
WRONG_CLIENT = CODE.replace(
    "return parent.client_update(client, state, download)", "return download[0]"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (
            WRONG_SERVER,
            "server_update of fedavg: ZeroDivisionError: integer division or modulo by zero "
            "(mine.py:15); correct it and resume the run",
        ),
        (
            WRONG_RESULT,
            "server_update of fedavg: TypeError: returned NoneType; expected arrays by name "
            "(mine.py:14); correct it and resume the run",
        ),
        (
            WRONG_KIND,
            "server_update of fedavg: ValueError: base.0.1.bias was float32 (100,), and is "
            "float64 (100,) now (mine.py:14); correct it and resume the run",
        ),
        (WRONG_CLIENT, "client 0 in round 1: KeyError: 0 (mine.py:12)"),
    ],
)
def test_a_mistake_is_one_line_with_its_place_and_the_run_goes_on_after_its_correction(
    tmp_path: Path, wrong: str, problem: str
) -> None:
    file = write_code(tmp_path / "wrong", wrong)
    failed = simulate(file)
    assert (failed.exit_code, failed.stderr.strip()) == (1, f"error: {problem}")
    write_code(tmp_path / "wrong")
    assert simulate(file).exit_code == 0
    told = [event["text"] for event in events(file.parent) if event["event"] == "start"]
    assert told == ["goes on with other code than before: mine.py"]
    right = write_code(tmp_path / "right")
    assert simulate(right).exit_code == 0
    assert events(file.parent)[-1]["digest"] == events(right.parent)[-1]["digest"]
    (right.parent / "mine.py").unlink()  # a report needs only what was measured
    use_code(None)
    assert read_run(right.parent / "runs" / "r").finished


@pytest.mark.slow
def test_boards_take_part_with_the_same_code_only(rig: Rig) -> None:
    write_code(rig.folder)
    (rig.folder / "x.toml").rename(rig.folder / "tiny.toml")
    other = rig.folder / "other"
    write_code(other, helper="def part(old, new):\n    return new\n")
    ear = rig.listen()
    rig.daemon("b1", "0,1", "--code", str(rig.folder))
    rig.daemon("b2", "2", "--code", str(other))
    rig.daemon("b3", "3")
    server = rig.coordinator()

    def problems() -> set[str]:
        return {message["problem"] for message in ear.messages("/connected/")} - {""}

    wanted = {
        f"helper.py in {other} is another version than the coordinator's",
        "'mine.py:cautious', but it is not known where mine.py is; a board is told by "
        "'fl-client run --code FOLDER'",
    }
    eventually(lambda: problems() == wanted, "both boards say why they take no part")
    assert not any(topic.startswith("fl/server/receive_weights/3") for topic in ear.topics())
    (other / "helper.py").write_text(HELPER)  # it is tried again by itself
    rig.processes[2].terminate()
    rig.processes[2].wait(20)
    rig.daemon("b3", "3", "--code", str(rig.folder))
    rig.finish(server)
    assert rig.digest() == rig.simulate_apart()
    sent = b"".join(body for topic, body, *_ in ear.heard if topic.endswith("/train_detail"))
    assert b"mine.py" in sent
    assert b"server_update" not in sent  # names and digests, no code


@pytest.mark.slow
def test_files_beside_an_experiment_hide_nothing_of_ours(tmp_path: Path) -> None:
    file = write_code(tmp_path / "here")
    for name in ("common", "broker", "fl_client", "json", "numpy", "torch"):
        (file.parent / f"{name}.py").write_text("raise SystemExit('the wrong one')\n")
    script = Path(sys.executable).with_name("fl-server")
    where = ["--run", "r", "--runs", "runs", "--plain"]
    done = subprocess.run(
        [script, "lab", "x.toml", "--boards", "2", *where],
        cwd=file.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    module = [sys.executable, "-m", "fl_server", "check", "x.toml"]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    (file.parent / "json.py").unlink()
    done = subprocess.run(module, cwd=file.parent, capture_output=True, text=True, env=env)
    assert done.returncode == 1
    assert done.stderr == (
        f"{file.parent}/common.py hides the common of fedbed; rename it, or start in another "
        "folder\n"
    )
