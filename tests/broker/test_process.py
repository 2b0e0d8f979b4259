from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.config import BrokerConfig
from broker.process import Broker
from broker.program import find_mosquitto, mosquitto_version
from common.errors import BrokerError, StoreError
from common.program.ports import free_port
from tests.broker.mqtt import connected, login_answer


def test_a_started_broker_answers_at_once(own_broker: Broker) -> None:
    assert own_broker.alive()
    assert login_answer(own_broker.host, own_broker.port) == "Success"


def test_a_stopped_broker_is_gone(own_broker: Broker) -> None:
    pid = own_broker.pid
    own_broker.stop()
    assert not own_broker.alive()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    own_broker.stop()


@pytest.mark.slow
def test_a_stop_right_after_the_start_is_heard(tmp_path: Path) -> None:
    for _ in range(20):
        with Broker(BrokerConfig(port=free_port()), tmp_path) as broker:
            (tmp_path / "mosquitto.db").unlink(missing_ok=True)
        assert not broker.alive()
        assert (tmp_path / "mosquitto.db").is_file()  # a killed one would not have saved


def test_starting_twice_starts_one(own_broker: Broker) -> None:
    pid = own_broker.pid
    own_broker.start()
    assert own_broker.pid == pid


def test_a_restart_keeps_the_port_and_what_was_retained(
    own_broker: Broker, federation: str
) -> None:
    with connected(own_broker.host, own_broker.port) as seen:
        seen.client.publish(federation, b"kept", qos=1, retain=True).wait_for_publish(10)
        pid = own_broker.pid
        own_broker.restart()
    assert own_broker.pid != pid
    with connected(own_broker.host, own_broker.port) as seen:
        seen.answer()
        seen.client.subscribe(federation, qos=1)
        assert seen.message() == b"kept"


def test_a_killed_broker_starts_again_on_its_port(own_broker: Broker) -> None:
    with connected(own_broker.host, own_broker.port) as seen:
        assert seen.answer() == "Success"
        own_broker.kill()
        assert not own_broker.alive()
        seen.end()
        own_broker.start()
        assert seen.answer() == "Success"


def test_a_port_in_use_is_reported(own_broker: Broker, tmp_path: Path) -> None:
    second = Broker(BrokerConfig(port=own_broker.port), tmp_path / "second")
    with pytest.raises(
        BrokerError, match=f"port {own_broker.port} is already in use by another"
    ):
        second.start()
    assert not second.alive()
    assert own_broker.alive()


def test_an_address_of_another_machine_is_reported(tmp_path: Path) -> None:
    config = BrokerConfig(address="192.0.2.1", port=free_port(), guarded=True)
    with pytest.raises(
        BrokerError, match=r"cannot listen on 192\.0\.2\.1 port \d+: Cannot assign"
    ):
        Broker(config, tmp_path).start()


def test_a_mosquitto_that_ends_at_its_start_is_quoted(tmp_path: Path) -> None:
    config = BrokerConfig(address="0.0.0.0", port=free_port(), guarded=True)
    broker = Broker(config, tmp_path)
    with pytest.raises(BrokerError, match=r"mosquitto ended at its start: .*password"):
        broker.start()
    assert not broker.alive()


@pytest.mark.parametrize("content", [b"", b"not a database", b"\x00\xb5\x00mosquitto db\x00"])
def test_state_damaged_by_a_power_cut_does_not_keep_it_from_starting(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "mosquitto.db").write_bytes(content)
    with Broker(BrokerConfig(port=free_port()), tmp_path) as broker:
        assert login_answer(broker.host, broker.port) == "Success"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot start mosquitto in .*/file/state"):
        Broker(BrokerConfig(port=free_port()), tmp_path / "file" / "state").start()


def test_it_is_found_outside_the_path_of_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert find_mosquitto().name == "mosquitto"


def test_without_mosquitto_the_error_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("broker.program._FOLDERS", ("/nowhere",))
    with pytest.raises(BrokerError, match="cannot find mosquitto; install it: "):
        find_mosquitto()


def test_the_version_is_read_from_the_program() -> None:
    assert int(mosquitto_version(find_mosquitto()).split(".")[0]) >= 2
    with pytest.raises(BrokerError, match="/bin/true does not report its version"):
        mosquitto_version(Path("/bin/true"))


def test_an_old_mosquitto_is_refused(tmp_path: Path) -> None:
    old = tmp_path / "mosquitto"
    old.write_text("#!/bin/sh\necho mosquitto version 1.6.12\n")
    old.chmod(0o755)
    broker = Broker(BrokerConfig(port=free_port()), tmp_path / "state")
    broker.program = old
    with pytest.raises(BrokerError, match=r"is 1\.6\.12; expected Mosquitto 2\.0 or later"):
        broker.start()
