"""What one account, or none, can do to the broker itself; against the real Mosquitto."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker.authority import ensure_certificate
from broker.cli import main
from broker.config import BrokerConfig
from broker.limits import allow_connections, memory_bytes, resident_bytes
from broker.log_file import MOST_BYTES, LogFile
from broker.process import Broker
from common.access.address import Address
from common.access.credentials import Credentials, read_credentials
from common.program.ports import free_port
from common.wire.link import Arrived, Up
from common.wire.topics import Packet
from tests.broker.mqtt import login_answer
from tests.broker.raw import NOT_AUTHORIZED, USER, data, login_code, raw
from tests.broker.test_cli import broker_up, first_line, mosquitto_in
from tests.common.wire.test_paho_link import connect_as, wait_for
from tests.conftest import Guarded
from tests.e2e.rig import eventually

MEGABYTE = 1024 * 1024
EMPTY_PROPERTIES = (bytes([USER]) + data(b"") + data(b"")) * 200_000  # 1 MB


def place(folder: Path, port: int) -> Broker:
    """The running broker of another process, for `raw`."""
    return Broker(BrokerConfig(port=port), folder)


def fill(broker: Broker, login: Credentials, sessions: int, messages: int) -> None:
    """Sleeping sessions with full queues, and retained messages."""
    own = f"fl/client/connected/{login.name}"
    for number in range(sessions):
        with raw(broker, login, client_id=f"s{number}", session_seconds=3600) as sleeper:
            sleeper.subscribe("fl/#")
    with raw(broker, login) as thief:
        for _ in range(messages):
            thief.publish(own, bytes(MEGABYTE - 1000))
        for topic in (own, "fl/server/receive_info/0", "fl/client/test_metrics/0"):
            assert thief.publish(topic, b"poison", retain=True) in (0, 0x10)


def retained(broker: Broker, login: Credentials) -> list[bytes]:
    """What a fresh subscriber gets at once."""
    with raw(broker, login) as reader:
        reader.send(b"\x82\x0a\x00\x01\x00\x00\x04fl/#\x01", b"\xc0\x00")
        found: list[bytes] = []
        while True:
            command, body = reader.receive()
            if command == 0xD0:
                return found
            if command & 0xF0 == 0x30:
                found.append(body)


def enrolled(folder: Path, port: int, name: str, *options: str) -> Credentials:
    where = ["--folder", str(folder), "--broker", f"127.0.0.1:{port}"]
    done = CliRunner().invoke(main, ["enroll", name, *options, *where])
    assert done.exit_code == 0, done.output
    return read_credentials(folder / "accounts" / f"{name}.toml")


def test_revoking_ends_what_an_account_left_behind_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    folder, port = tmp_path / "b", free_port()
    ensure_certificate(folder, ["127.0.0.1"])
    thief = enrolled(folder, port, "thief", "--clients", "0")
    server = enrolled(folder, port, "server", "--coordinator")
    honest = Address("127.0.0.1", port, server.name, server.password, server.ca)
    with broker_up(folder, "--port", str(port), "--listen", "0.0.0.0") as process:
        first_line(process)
        broker = place(folder, port)
        [pid] = mosquitto_in(folder)
        empty = resident_bytes(pid)
        with connect_as(honest, "server", "fl/train/end") as link:
            wait_for(link, Up)
            fill(broker, thief, sessions=5, messages=60)
            full = resident_bytes(pid)
            assert full > empty + 50 * MEGABYTE
            assert len(retained(broker, server)) == 3
            CliRunner().invoke(main, ["revoke", "thief", "--folder", str(folder)])
            eventually(lambda: mosquitto_in(folder) not in ([], [pid]), "a new broker")
            assert wait_for(link, Up).connection > 1
            link.publish(Packet("fl/train/end", b"on", retain=True))
            assert wait_for(link, Arrived).payload == b"on"
        [after] = mosquitto_in(folder)
        assert resident_bytes(after) < empty + 20 * MEGABYTE
        assert len(retained(broker, server)) == 1, "the coordinator's own"
        assert login_code(broker, thief) == NOT_AUTHORIZED
        assert not (folder / "forget").exists()
        process.terminate()
        process.wait(20)
    with broker_up(folder, "--port", str(port), "--listen", "0.0.0.0") as process:
        first_line(process)
        assert len(retained(broker, server)) == 1, "nothing comes back with a restart"


def test_a_revoked_account_is_forgotten_also_by_a_broker_that_was_down(
    guarded: Guarded,
) -> None:
    thief = guarded.enroll("thief", "0")
    server = guarded.enroll("server", role="coordinator")
    fill(guarded.broker, thief, sessions=1, messages=1)
    guarded.broker.stop()
    done = CliRunner().invoke(main, ["revoke", "thief", "--folder", str(guarded.folder)])
    assert done.exit_code == 0
    guarded.broker.start()
    assert retained(guarded.broker, server) == []


SUPERVISED = """
import sys
from pathlib import Path
from broker.config import BrokerConfig
from broker.process import Broker
from broker.supervisor import supervise
config = BrokerConfig(port=int(sys.argv[1]), max_memory_bytes=int(sys.argv[3]))
supervise(Broker(config, Path(sys.argv[2])), lambda: print("ready", flush=True))
"""


@contextmanager
def supervised(folder: Path, port: int, memory: int) -> Iterator[subprocess.Popen[str]]:
    arguments = [str(port), str(folder), str(memory)]
    with subprocess.Popen(
        [sys.executable, "-c", SUPERVISED, *arguments], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert first_line(process) == "ready\n"
            yield process
        finally:
            process.terminate()


def flood(broker: Broker, payload: bytes, properties: bytes, count: int) -> None:
    for number in range(10):
        with raw(broker, client_id=f"s{number}", session_seconds=3600) as sleeper:
            sleeper.subscribe("x")
    with raw(broker) as thief:
        for _ in range(count):
            thief.publish("x", payload, properties=properties)


@pytest.mark.parametrize(
    ("payload", "properties", "count"),
    [(bytes(MEGABYTE - 1000), b"", 400), (b"", EMPTY_PROPERTIES, 40)],
    ids=["payloads", "properties"],
)
def test_a_broker_that_is_nearly_full_is_emptied_and_goes_on(
    tmp_path: Path, payload: bytes, properties: bytes, count: int
) -> None:
    port, most = free_port(), 256 * MEGABYTE
    with supervised(tmp_path, port, most):
        broker = place(tmp_path, port)
        [pid] = mosquitto_in(tmp_path)
        with connect_as(Address("127.0.0.1", port), "board", "a") as link:
            wait_for(link, Up)
            with pytest.raises(ConnectionError):
                flood(broker, payload, properties, count)
            eventually(lambda: mosquitto_in(tmp_path) not in ([], [pid]), "a new broker")
            wait_for(link, Up)
            link.publish(Packet("a", b"on", retain=False))
            assert wait_for(link, Arrived).payload == b"on"
        [after] = mosquitto_in(tmp_path)
        assert resident_bytes(after) < most // 4


SILENT = """
import resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
place = ("127.0.0.1", int(sys.argv[1]))
held = [socket.create_connection(place, 60) for _ in range(int(sys.argv[2]))]
print("open", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_a_thousand_silent_connections_lock_nobody_out(guarded: Guarded) -> None:
    allow_connections(guarded.broker.config.max_connections)
    guarded.broker.restart()
    login = guarded.enroll("pi", "0")
    with subprocess.Popen(
        [sys.executable, "-c", SILENT, str(guarded.broker.port), "1200"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as silent:
        assert first_line(silent) == "open\n"
        assert login_answer(guarded.broker.host, guarded.broker.port, login) == "Success"
        assert resident_bytes(guarded.broker.pid) < 200 * MEGABYTE
        silent.kill()


def test_the_log_has_an_end(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "mosquitto.log")
    with log.open() as output:
        for number in range(300):
            output.write(b"%d " % number + b"x" * 50_000 + b"\n")
            output.flush()
            log.rotate()
        output.write(b"2026-01-01T00:00:00: the last line\n")
    assert log.last_lines().endswith(" / the last line")
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == {"mosquitto.log", "mosquitto.log.1"}
    assert max(sizes.values()) <= MOST_BYTES + 60_000
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_the_log_of_a_running_broker_has_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.log_file.MOST_BYTES", 2_000)
    with Broker(BrokerConfig(port=free_port()), tmp_path) as broker:
        for _ in range(30):
            login_answer(broker.host, broker.port)
            broker.log.rotate()
        login_answer(broker.host, broker.port)
        eventually(lambda: "connected" in broker.log.last_lines(), "a new line")
    assert broker.log.path.stat().st_size < 4_000
    assert (tmp_path / "mosquitto.log.1").stat().st_size <= 2_000


def test_files_of_the_broker_are_private_whatever_the_umask(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    before = os.umask(0o022)
    try:
        with Broker(BrokerConfig(port=free_port()), tmp_path):
            pass
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("mosquitto.conf", "mosquitto.db", "mosquitto.log"), 0o600)


def test_the_memory_limit_is_one_that_this_machine_has() -> None:
    assert 0 < memory_bytes() < 2**31
