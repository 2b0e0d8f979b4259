from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.config import BrokerConfig, is_loopback, mosquitto_conf
from broker.process import Broker
from common.errors import ConfigError
from common.program.ports import free_port
from tests.broker.mqtt import connected


def test_by_default_only_this_machine_is_served_and_without_accounts() -> None:
    lines = mosquitto_conf(BrokerConfig(), "/state").splitlines()
    assert "listener 1883 127.0.0.1" in lines
    assert "allow_anonymous true" in lines
    assert not [line for line in lines if line.startswith("password_file")]


def test_state_is_kept_in_the_folder_and_limits_are_set() -> None:
    lines = mosquitto_conf(BrokerConfig(), "/state", user="root").splitlines()
    for line in (
        "persistence true",
        "persistence_location /state",
        "autosave_interval 30",
        "persistent_client_expiration 1h",
        "max_packet_size 1048576",
        "max_inflight_messages 100",
        "max_queued_messages 50000",
        "max_queued_bytes 715827882",
        "max_connections 10000",
        "memory_limit 2147483647",
        "set_tcp_nodelay true",
        "user root",
    ):
        assert line in lines


def test_a_small_broker_keeps_no_less_for_a_session() -> None:
    lines = mosquitto_conf(BrokerConfig(max_memory_bytes=512 * 1024**2), "/state").splitlines()
    assert "max_queued_bytes 268435456" in lines


def test_a_guarded_broker_speaks_tls_and_nobody_is_anonymous() -> None:
    lines = mosquitto_conf(BrokerConfig(address="0.0.0.0", guarded=True), "/state").splitlines()
    assert "allow_anonymous false" in lines
    assert "password_file /state/passwords" in lines
    assert "acl_file /state/acl" in lines
    assert "certfile /state/tls/server.pem" in lines
    assert "tls_version tlsv1.2" in lines
    assert len([line for line in lines if line.startswith("listener ")]) == 1
    assert "allow_anonymous true" not in lines


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.1", "::1", "localhost", "LocalHost"])
def test_loopback_addresses_are_known(address: str) -> None:
    assert is_loopback(address)
    BrokerConfig(address=address)


@pytest.mark.parametrize(
    "address",
    ["0.0.0.0", "::", "10.0.0.5", "fe80::1%eth0", "broker.lan", "127.1", "localhost.x"],
)
def test_an_open_listener_for_other_machines_cannot_be_written(address: str) -> None:
    with pytest.raises(ConfigError, match="can be reached from other machines"):
        BrokerConfig(address=address)
    BrokerConfig(address=address, guarded=True)


def test_localhost_is_not_left_to_the_resolver() -> None:
    text = mosquitto_conf(BrokerConfig(address="localhost"), "/state")
    assert "listener 1883 127.0.0.1\n" in text


@given(st.text())
def test_an_address_never_adds_a_line_or_a_word(address: str) -> None:
    try:
        config = BrokerConfig(address=address, guarded=True)
    except ConfigError:
        return
    usual = mosquitto_conf(BrokerConfig(guarded=True), "/state")
    assert len(mosquitto_conf(config, "/state").split()) == len(usual.split())


@pytest.mark.parametrize("address", ["", "a b", "::1%x\nlistener 1 0.0.0.0", "a\n", "#"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="expected a host or IP address"):
        BrokerConfig(address=address, guarded=True)


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_port_out_of_range_is_refused(port: int) -> None:
    with pytest.raises(ConfigError, match=f"broker port is {port}; expected 1 to 65535"):
        BrokerConfig(port=port)


def test_a_limit_that_means_no_limit_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_packet_bytes is 0"):
        BrokerConfig(max_packet_bytes=0)
    with pytest.raises(ConfigError, match="max_inflight_messages is 65536"):
        BrokerConfig(max_inflight_messages=65536)


@pytest.mark.parametrize("folder", ["/a\nallow_anonymous true", " /a", "/a\t"])
def test_a_folder_that_would_break_the_file_is_refused(folder: str) -> None:
    with pytest.raises(ConfigError, match="broker folder is"):
        mosquitto_conf(BrokerConfig(), folder)


def test_a_chunk_passes_and_a_larger_packet_ends_the_connection(
    broker: Broker, federation: str
) -> None:
    topic = f"{federation}/size"
    with connected(broker.host, broker.port) as seen:
        assert seen.answer() == "Success"
        seen.client.subscribe(topic, qos=1)
        seen.client.publish(topic, bytes(1_000_000), qos=1)
        assert len(seen.message()) == 1_000_000
        seen.client.publish(topic, bytes(1_100_000), qos=0)
        seen.end()
        assert seen.answer() == "Success"


def test_a_folder_with_a_blank_in_its_name_works(tmp_path: Path) -> None:
    folder = tmp_path / "my broker"
    with Broker(BrokerConfig(port=free_port()), folder):
        pass
    assert (folder / "mosquitto.db").is_file()
