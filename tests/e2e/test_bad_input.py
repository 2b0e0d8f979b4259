"""Wrong input: one clear line, the right exit code, nothing lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from broker.cli import main as fl_broker
from common.program.ports import free_port
from fl_client.cli import main as fl_client
from fl_server.cli import main as fl_server
from tests.e2e.rig import TINY

pytestmark = pytest.mark.slow  # real processes


def call(*arguments: str, cwd: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", *arguments], capture_output=True, text=True, cwd=cwd, timeout=60
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, (done.stdout + done.stderr).strip()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tiny.toml").write_text(TINY)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("fl_server", "run", "absent.toml"), 2, "absent.toml does not exist; write one with"),
        (("fl_server", "check", "tiny.toml", "--set", "data.client=3"), 2, "data.clients?"),
        (("fl_server", "check", "tiny.toml", "--set", "oops"), 2, "expected section.key=value"),
        (("fl_server", "lab", "tiny.toml", "--boards", "0"), 2, "--boards"),
        (("fl_server", "lab", "tiny.toml", "--run", "../up"), 2, "--run is '../up'"),
        (("fl_server", "resume", "nothing"), 2, "no run 'nothing' in runs; there is none"),
        (("fl_server", "run", "tiny.toml", "--broker", "x:y"), 2, "expected HOST or HOST:PORT"),
        (("fl_client", "run"), 2, "--clients"),
        (("fl_client", "run", "--clients", "5-2"), 2, "runs backwards"),
        (("fl_client", "run", "--clients", "1", "--board", "a/b"), 2, "--board is 'a/b'"),
        (("fl_client", "run", "--clients", "1", "--credentials", "no"), 2, "no cannot be read"),
    ],
)
def test_wrong_use_is_exit_code_two_and_one_line(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: int,
    words: str,
) -> None:
    monkeypatch.chdir(folder)
    program = {"fl_server": fl_server, "fl_client": fl_client}[arguments[0]]
    done = CliRunner().invoke(program, arguments[1:])
    assert (done.exit_code, words in done.output) == (code, True), done.output
    assert isinstance(done.exception, SystemExit), "no traceback"


def test_no_broker_is_said_at_once_with_what_to_do(folder: Path) -> None:
    port = free_port()
    code, text = call(
        "fl_server", "run", "tiny.toml", "--broker", f"127.0.0.1:{port}", cwd=folder
    )
    assert code == 1
    assert f"cannot reach the broker at 127.0.0.1:{port}: connection refused" in text
    assert "fl-broker up" in text


def test_a_file_that_is_not_toml_is_named(folder: Path) -> None:
    (folder / "tiny.toml").write_text("not = = toml")
    code, text = call("fl_server", "lab", "tiny.toml", cwd=folder)
    assert code == 2
    assert text.startswith("error: tiny.toml is not valid TOML")


def test_a_missing_dataset_ends_a_lab_before_anything_starts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if Path("/usr/share/datasets/fashion-mnist").exists():
        pytest.skip("this machine has Fashion-MNIST, so nothing is missing")
    monkeypatch.setenv("FEDBED_DATA", str(folder))
    code, text = call(
        *("fl_server", "lab", "tiny.toml", "--set", "data.dataset=fashion-mnist"), cwd=folder
    )
    assert code == 1
    assert "FEDBED_DATA" in text


def test_init_writes_a_file_that_check_accepts_and_does_not_overwrite(folder: Path) -> None:
    assert call("fl_server", "init", "new.toml", cwd=folder)[0] == 0
    assert 'name = "new"' in (folder / "new.toml").read_text()
    assert call("fl_server", "check", "new.toml", cwd=folder)[0] == 0
    code, text = call("fl_server", "init", "new.toml", cwd=folder)
    assert code == 2
    assert "not overwritten" in text


@pytest.mark.parametrize("group", [fl_server, fl_client, fl_broker])
def test_every_command_has_help_with_an_example_and_a_version(group: click.Group) -> None:
    runner = CliRunner()
    for name in (None, *group.commands):
        shown = runner.invoke(group, [*([name] if name else []), "--help"])
        assert (shown.exit_code, "Example" in shown.output) == (0, True), name
    assert runner.invoke(group, ["--version"]).output.startswith("fedbed ")


def test_a_state_folder_that_cannot_be_made_is_refused(folder: Path) -> None:
    (folder / "file").write_text("in the way")
    code, text = call(
        *("fl_client", "run", "--clients", "0", "--state", "file/state"), cwd=folder
    )
    assert code == 1
    assert "choose another folder" in text


def test_two_daemons_on_one_state_folder_do_not_mix(rig_free_folder: Path) -> None:
    port = free_port()
    command = (
        *("fl_client", "run", "--clients", "0", "--board", "b1"),
        *("--broker", f"127.0.0.1:{port}", "--state", "state"),
    )
    first = subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=rig_free_folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert first.stderr is not None
    assert "waiting for a broker" in first.stderr.readline()  # the lock is taken by now
    code, text = call(*command, cwd=rig_free_folder)
    first.terminate()
    first.communicate()
    assert code == 1
    assert "is in use by the daemon of board 'b1'" in text


@pytest.fixture
def rig_free_folder(tmp_path: Path) -> Path:
    return tmp_path
