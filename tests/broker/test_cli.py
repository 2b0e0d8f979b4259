from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker.accounts import accounts
from broker.cli import main
from broker.config import BrokerConfig
from broker.process import Broker
from common.access.address import Address, probe
from common.access.credentials import read_credentials
from common.errors import BrokerError
from common.program.ports import free_port
from tests.broker.mqtt import connected, login_answer
from tests.broker.raw import NOT_AUTHORIZED, login_code

WAIT_SECONDS = 10.0


def mosquitto_in(folder: Path) -> list[int]:
    """The ids of the mosquitto processes whose configuration is in `folder`."""
    wanted = str(folder / "mosquitto.conf").encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if wanted in words:
            found.append(int(path.parent.name))
    return found


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
        pytest.fail("fl-broker has ended")


@contextmanager
def broker_up(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "broker", "up", "--folder", str(folder), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout, process.stderr:
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_up_says_when_it_is_ready_and_a_signal_ends_it(
    tmp_path: Path, number: signal.Signals
) -> None:
    port = free_port()
    with broker_up(tmp_path, "--port", str(port)) as process:
        assert re.fullmatch(
            rf"broker ready on 127\.0\.0\.1:{port} \(mosquitto 2\S*, folder {tmp_path}\)\n",
            first_line(process),
        )
        assert login_answer("127.0.0.1", port) == "Success"
        [pid] = mosquitto_in(tmp_path)
        process.send_signal(number)
        assert process.wait(WAIT_SECONDS) == 0
        assert mosquitto_in(tmp_path) == []
        assert pid != process.pid


def test_a_killed_mosquitto_is_started_again(tmp_path: Path) -> None:
    port = free_port()
    with broker_up(tmp_path, "--port", str(port)) as process:
        first_line(process)
        [pid] = mosquitto_in(tmp_path)
        with connected("127.0.0.1", port) as seen:
            assert seen.answer() == "Success"
            os.kill(pid, signal.SIGKILL)
            assert seen.answer() == "Success"
        assert mosquitto_in(tmp_path) != [pid]
        process.terminate()
        assert process.wait(WAIT_SECONDS) == 0
        assert process.stderr is not None
        assert "mosquitto died; starting it again" in process.stderr.read()


@pytest.mark.slow
def test_a_mosquitto_that_keeps_dying_is_given_up(tmp_path: Path) -> None:
    with broker_up(tmp_path, "--port", str(free_port())) as process:
        first_line(process)
        for _ in range(5):
            wait_until(lambda: bool(mosquitto_in(tmp_path)), process)
            os.kill(mosquitto_in(tmp_path)[0], signal.SIGKILL)
            wait_until(lambda: not mosquitto_in(tmp_path), process)
        assert process.wait(WAIT_SECONDS) == 1
        assert process.stderr is not None
        last = process.stderr.read().splitlines()[-1]
        assert last.startswith("error: mosquitto died 5 times within 30 s; its last lines: ")


def test_a_killed_supervisor_takes_mosquitto_with_it(tmp_path: Path) -> None:
    port = free_port()
    with broker_up(tmp_path, "--port", str(port)) as process:
        first_line(process)
        assert len(mosquitto_in(tmp_path)) == 1
        process.kill()
        process.wait()
        with subprocess.Popen(["sleep", "60"], text=True) as clock:
            wait_until(lambda: not mosquitto_in(tmp_path), clock)
            clock.kill()


def test_a_board_enrolled_and_revoked_while_it_runs_counts(tmp_path: Path) -> None:
    port, folder = free_port(), str(tmp_path / "b")
    runner = CliRunner()
    with broker_up(tmp_path / "b", "--port", str(port), "--listen", "0.0.0.0") as process:
        assert f"broker ready on 0.0.0.0:{port} with TLS (" in first_line(process)
        bundle = tmp_path / "pi.toml"
        options = ["--folder", folder, "--broker", "127.0.0.1", "-o", str(bundle)]
        runner.invoke(main, ["enroll", "pi", "--clients", "0-2", *options])
        login = read_credentials(bundle)
        assert login.broker == f"127.0.0.1:{port}"
        wait_until(lambda: login_answer("127.0.0.1", port, login) == "Success", process)
        assert not reaches(Address("127.0.0.8", port, ca=login.ca))
        runner.invoke(main, ["renew", "--name", "127.0.0.8", "--folder", folder])
        wait_until(lambda: reaches(Address("127.0.0.8", port, ca=login.ca)), process)
        runner.invoke(main, ["revoke", "pi", "--folder", folder])
        broker = Broker(BrokerConfig(port=port), tmp_path / "b")
        wait_until(lambda: login_code(broker, login) == NOT_AUTHORIZED, process)


def reaches(address: Address) -> bool:
    try:
        probe(address)
    except BrokerError:
        return False
    return True


def test_a_port_in_use_is_one_line_and_exit_1(own_broker: Broker, tmp_path: Path) -> None:
    port = own_broker.port
    done = CliRunner().invoke(
        main, ["up", "--port", str(port), "--folder", str(tmp_path / "b")]
    )
    assert done.exit_code == 1
    assert done.stderr == (
        f"error: port {port} is already in use by another process; choose another port\n"
    )


def test_there_is_no_switch_to_run_open_on_a_network() -> None:
    options = {option for parameter in main.commands["up"].params for option in parameter.opts}
    logs = {"-v", "--verbose", "-q", "--quiet", "--log-format"}
    assert options - logs == {"--listen", "--port", "--announce", "--name", "--folder"}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--port", "0"], "broker port is 0; expected 1 to 65535"),
        (["--port", "70000"], "broker port is 70000; expected 1 to 65535"),
        (["--listen", "a b"], "broker address is 'a b'; expected a host or IP address"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(options: list[str], reason: str) -> None:
    done = CliRunner().invoke(main, ["up", *options])
    assert done.exit_code == 2
    assert done.stderr == f"error: {reason}\n"


def test_boards_are_enrolled_listed_and_revoked(tmp_path: Path) -> None:
    runner, folder = CliRunner(), ["--folder", str(tmp_path)]
    enroll = ["enroll", "pi-1", "--clients", "0-2", "--broker", "10.0.0.5", *folder]
    made = runner.invoke(main, enroll)
    assert made.exit_code == 0
    bundle = tmp_path / "accounts" / "pi-1.toml"
    assert made.output == (
        f"enrolled board pi-1 with clients 0-2: {bundle}\n"
        "copy the file to where it is needed, then: fl-client run --credentials pi-1.toml\n"
    )
    assert runner.invoke(main, enroll).output == (
        f"unchanged: board pi-1 with clients 0-2: {bundle}\n"
    )
    assert runner.invoke(main, ["enroll", "server", "--coordinator", *folder]).exit_code == 0
    assert runner.invoke(main, ["enroll", "screen", "--viewer", *folder]).exit_code == 0
    listed = runner.invoke(main, ["boards", *folder]).output
    assert listed.splitlines()[:4] == [
        "NAME    ROLE         FEDERATION  CLIENTS",
        "pi-1    board        fl          0-2",
        "screen  viewer       fl          -",
        "server  coordinator  fl          -",
    ]
    assert re.search(r"certificate valid until 20\d\d-\d\d-\d\d \(729 days\)", listed)
    assert re.search(r"certificate is for .*10\.0\.0\.5", listed)
    assert read_credentials(bundle).password not in made.output + listed
    assert runner.invoke(main, ["revoke", "pi-1", *folder]).exit_code == 0
    assert runner.invoke(main, ["revoke", "pi-1", *folder]).exit_code == 2
    assert "pi-1" not in runner.invoke(main, ["boards", *folder]).output


@pytest.mark.parametrize(
    "options", [[], ["--clients", "0", "--viewer"], ["--viewer", "--coordinator"]]
)
def test_an_account_is_for_one_thing(tmp_path: Path, options: list[str]) -> None:
    done = CliRunner().invoke(main, ["enroll", "x", *options, "--folder", str(tmp_path)])
    assert done.exit_code == 2
    assert "expected one of --clients IDS, --coordinator and --viewer" in done.stderr


def test_state_is_where_the_system_keeps_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    CliRunner().invoke(main, ["enroll", "screen", "--viewer"])
    [account] = accounts(tmp_path / "state" / "fedbed" / "broker")
    monkeypatch.delenv("XDG_STATE_HOME")
    CliRunner().invoke(main, ["enroll", "screen", "--viewer"])
    assert accounts(tmp_path / "home/.local/state/fedbed/broker") == (account,)


def test_a_board_gets_the_lines_that_install_it(tmp_path: Path) -> None:
    bundle = tmp_path / "pi-1.toml"
    options = ["--clients", "0-2", "--broker", "10.0.0.5", "--folder", str(tmp_path / "broker")]
    made = CliRunner().invoke(main, ["enroll", "pi-1", *options, "-o", str(bundle)])
    kit = tmp_path / "fedbed-board.tar.gz"
    assert made.output == (
        f"enrolled board pi-1 with clients 0-2: {bundle}\n"
        f"copy both files to the board, such as: scp {bundle} {kit} pi@pi-1.local:\n"
        "then type there:\n"
        "  tar xzf fedbed-board.tar.gz\n"
        "  sudo sh fedbed-board/install.sh pi-1.toml\n"
    )
    assert kit.stat().st_size > 100_000
    assert bundle.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("command", [[], ["up"], ["enroll"], ["boards"], ["revoke"], ["renew"]])
def test_every_command_has_help_with_an_example(command: list[str]) -> None:
    done = CliRunner().invoke(main, [*command, "--help"])
    assert done.exit_code == 0
    assert re.search(r"Examples?:\n +fl-broker", done.output)
