"""The doctor's looks at a real machine, a real child process and a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker.accounts import revoke
from broker.process import Broker
from common.data.shards import ShardSet
from common.experiment.file import load_experiment
from common.program.ports import free_port
from fl_client.cli import main
from fl_client.doctor.examine import try_torch
from tests.conftest import Guarded
from tests.e2e.rig import TINY

DIE = "import os, signal; print('version 2.13.0'); print('step matmul', flush=True); "


def examined(*options: str) -> tuple[int, dict[str, dict[str, str]]]:
    result = CliRunner().invoke(main, ["doctor", *options, "--json"])
    assert result.exit_code in (0, 1), result.output
    findings = json.loads(result.output)["findings"]
    return result.exit_code, {finding["check"]: finding for finding in findings}


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    (tmp_path / "tiny.toml").write_text(TINY)
    return tmp_path / "tiny.toml"


def test_a_child_that_dies_of_a_signal_is_survived_and_its_last_step_known() -> None:
    trial = try_torch((sys.executable, "-c", DIE + "os.kill(os.getpid(), signal.SIGILL)"))
    assert (trial.code, trial.step, trial.version) == (-4, "matmul", "2.13.0")


def test_a_child_that_raises_gives_its_last_words() -> None:
    trial = try_torch((sys.executable, "-c", "import a_module_that_is_not_there"))
    assert trial.code == 1
    assert trial.last_words.startswith("ModuleNotFoundError")


@pytest.mark.slow
def test_a_board_with_a_broker_and_its_data_is_well(
    broker: Broker, federation: str, experiment: Path, tmp_path: Path
) -> None:
    wanted = load_experiment(experiment)
    state = tmp_path / "state"
    ShardSet(state / "shards", wanted).ensure([0, 1])
    who = ("--broker", f"127.0.0.1:{broker.port}", "--federation", federation)
    board = ("--board", "b1", "--clients", "0-1", "--state", str(state))
    code, findings = examined(*who, *board, "--experiment", str(experiment))
    assert code == 0
    assert findings["torch"]["level"] == "ok", findings["torch"]
    assert findings["login"]["level"] == "ok"
    assert findings["data"]["found"] == "shards of clients 0, 1 are whole"


def test_an_enrolled_board_is_let_in_and_held_to_its_topics(
    guarded: Guarded, tmp_path: Path
) -> None:
    bundle = guarded.bundle("b1", "0-1")
    where = ("--credentials", str(bundle), "--state", str(tmp_path / "state"), "--quick")
    code, findings = examined(*where)
    assert code == 0, findings
    assert findings["certificate"]["level"] == "ok"
    assert findings["login"]["found"] == "as b1"
    assert findings["topics"]["found"].endswith("may not publish as the coordinator")
    assert "torch" not in findings


def test_a_revoked_board_is_told_to_enroll_again(guarded: Guarded, tmp_path: Path) -> None:
    bundle = guarded.bundle("b1", "0-1")
    kept = tmp_path / "kept.toml"
    kept.write_text(bundle.read_text())
    kept.chmod(0o600)
    revoke(guarded.folder, "b1")
    guarded.broker.reload()
    where = ("--credentials", str(kept), "--state", str(tmp_path / "state"), "--quick")
    code, findings = examined(*where)
    assert code == 1
    assert findings["login"]["level"] == "failed"
    assert "fl-broker enroll" in findings["login"]["advice"]


def test_shards_with_samples_of_all_clients_are_found_in_their_own_folder(
    experiment: Path, tmp_path: Path
) -> None:
    experiment.write_text(TINY + "[evaluation]\nunion_samples = 20\n")
    state = tmp_path / "state"
    ShardSet(state / "shards", load_experiment(experiment)).ensure([0, 1])
    _, findings = examined(
        *("--broker", f"127.0.0.1:{free_port()}", "--board", "b1", "--clients", "0-1"),
        *("--state", str(state), "--experiment", str(experiment), "--quick"),
    )
    assert findings["data"]["found"] == "shards of clients 0, 1 are whole"


def test_no_broker_and_a_damaged_shard_are_both_told(experiment: Path, tmp_path: Path) -> None:
    wanted = load_experiment(experiment)
    state = tmp_path / "state"
    folder = ShardSet(state / "shards", wanted).ensure([0]).folder
    (folder / "client-0.safetensors").write_bytes(b"not a shard")
    nowhere = f"127.0.0.1:{free_port()}"
    code, findings = examined(
        *("--broker", nowhere, "--board", "b1", "--clients", "0", "--state", str(state)),
        "--quick",
    )
    assert code == 1
    assert findings["broker"]["level"] == "failed"
    assert f"cannot reach the broker at {nowhere}" in findings["broker"]["found"]
    assert findings["data"]["found"] == "the shards of client 0 are damaged"
    assert "login" not in findings, "nobody to log in to"


def test_the_report_for_people_has_a_line_for_each_check_and_what_to_do(tmp_path: Path) -> None:
    where = ("--broker", f"127.0.0.1:{free_port()}", "--board", "b1", "--clients", "0")
    result = CliRunner().invoke(main, ["doctor", *where, "--state", str(tmp_path), "--quick"])
    assert result.exit_code == 1
    lines = result.output.splitlines()
    broken = next(n for n, line in enumerate(lines) if line.startswith("FAIL  broker"))
    assert lines[broken + 1].strip().startswith("-> start the broker")


def test_a_board_that_is_not_enrolled_yet_is_examined_and_told_the_next_step(
    tmp_path: Path,
) -> None:
    code, findings = examined("--quick", "--board", "pi-7", "--state", str(tmp_path))
    assert code == 0
    assert {"python", "system", "memory", "disk", "clock"} < set(findings)
    assert "fl-broker enroll pi-7 --clients 0-2 -o pi-7.toml" in findings["enrolled"]["advice"]


# As Docker before 20.10.10 did it: clone3 is refused as forbidden instead of as unknown.
REFUSE_CLONE3 = """
import ctypes, struct, sys
def rule(code, true, false, value):
    return struct.pack("HBBI", code, true, false, value)
code = b"".join((rule(0x20, 0, 0, 0), rule(0x15, 0, 1, 435),
                 rule(0x06, 0, 0, 0x00050001), rule(0x06, 0, 0, 0x7FFF0000)))
rules = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxP", 4, ctypes.addressof(rules))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.create_string_buffer(program), 0, 0) == 0
from fl_client.__main__ import main
main()
"""


@pytest.mark.parametrize("command", ["doctor", "run"])
def test_a_system_that_refuses_threads_is_told_in_plain_words(
    command: str, broker: Broker, tmp_path: Path
) -> None:
    board = ("--board", "b1", "--clients", "0", "--state", str(tmp_path))
    where = ("--broker", f"127.0.0.1:{broker.port}", *(["--quick"] * (command == "doctor")))
    done = subprocess.run(
        [sys.executable, "-c", REFUSE_CLONE3, command, *where, *board],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "can't start new thread" in done.stdout + done.stderr
    assert "Docker before 20.10.10 refuses the system call clone3" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
