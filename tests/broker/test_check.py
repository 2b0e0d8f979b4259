from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import pytest
from click.testing import CliRunner

from broker.check import Finding, check
from broker.cli import main
from broker.config import BrokerConfig, mosquitto_conf
from broker.process import Broker
from broker.program import find_mosquitto
from common.access.address import Address, probe
from common.access.credentials import split_address
from common.program.ports import free_port
from tests.conftest import Guarded

Change: TypeAlias = Callable[[bytes], bytes | None]

ABILITIES = {
    *("v5", "qos 1", "retained", "sizes", "sessions", "queues"),
    *("wills", "keepalive", "flow", "takeover", "access"),
}
BUILT_ON_V5 = ABILITIES - {"v5"}
OLDER = b"\x20\x02\x00\x01"  # "unacceptable protocol version", as MQTT 3.1.1 has it


def levels(found: list[Finding], level: str) -> set[str]:
    return {finding.ability for finding in found if finding.level == level}


@contextmanager
def mosquitto(folder: Path, settings: dict[str, str], rules: str = "") -> Iterator[Address]:
    """Ours, with other settings."""
    port = free_port()
    folder.mkdir()
    lines = mosquitto_conf(BrokerConfig(port=port), str(folder), user="root").splitlines()
    lines = [line for line in lines if line.split()[0] not in settings]
    lines += [f"{key} {value}" for key, value in settings.items()]
    if rules:
        (folder / "acl").write_text(rules)
        lines.append(f"acl_file {folder}/acl")
    (folder / "mosquitto.conf").write_text("\n".join(lines) + "\n")
    started = subprocess.Popen(
        [find_mosquitto(), "-c", folder / "mosquitto.conf"], stderr=subprocess.DEVNULL
    )
    try:
        address = Address("127.0.0.1", port)
        probe(address, patience=10.0)
        yield address
    finally:
        started.terminate()
        started.wait(10)


def pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def serve(client: socket.socket, target: Address, change: Change) -> None:
    with client, socket.create_connection((target.host, target.port)) as server:
        hello = change(client.recv(65536))
        if hello is None:
            client.sendall(OLDER)
            return
        server.sendall(hello)
        back = threading.Thread(target=pump, args=(server, client))
        back.start()
        pump(client, server)
        back.join()


@contextmanager
def relayed(target: Address, change: Change) -> Iterator[Address]:
    """The way to a broker with the CONNECT of every client changed; None: an older broker."""

    def accept() -> None:
        with suppress(OSError), ThreadPoolExecutor(64) as pool:
            while True:
                pool.submit(serve, listener.accept()[0], target, change)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield Address("127.0.0.1", listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()


@pytest.mark.slow
def test_our_broker_has_all_that_the_protocol_needs(guarded: Guarded) -> None:
    bundle = guarded.bundle("server", role="coordinator")
    place = f"{guarded.broker.host}:{guarded.broker.port}"
    done = CliRunner().invoke(main, ["check", place, "--credentials", str(bundle)])
    assert done.exit_code == 0, done.output
    assert "a forbidden publish is refused" in done.output
    assert "has all that the protocol needs" in done.output
    assert set(find_abilities(done.output)) == ABILITIES


def find_abilities(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield from (name for name in ABILITIES if line.startswith(f"ok       {name} "))


LACKING: list[tuple[str, dict[str, str], str]] = [
    ("qos 1", {"max_qos": "0"}, ""),
    ("qos 1", {}, "topic read #\n"),
    ("retained", {"retain_available": "false"}, ""),
    ("sizes", {"max_packet_size": "524288"}, ""),
    ("sizes", {"message_size_limit": "524288"}, ""),
    ("queues", {"max_queued_messages": "1000"}, ""),
    ("queues", {"max_queued_bytes": "1000000"}, ""),
    ("flow", {"max_inflight_messages": "20"}, ""),
]
COUNT = iter(range(10, 100))
NOT_HONOURED: list[tuple[str, Change]] = [  # what Mosquitto cannot leave out by its settings
    ("sessions", lambda hello: hello.replace(b"\x11\0\1\x51\x80", b"\x11\0\0\0\0")),
    ("wills", lambda hello: hello.replace(b"\x18\0\0\0\2", b"\x18\0\0\0\0")),
    ("keepalive", lambda hello: hello.replace(b"\x02\0\1\x08", b"\x02\0\0\x08")),
    ("flow", lambda hello: hello.replace(b"\x21\0\x10", b"\x21\xff\xff")),
    ("takeover", lambda hello: hello.replace(b"-twin", b"-tw%02d" % next(COUNT))),
]


@pytest.mark.slow
def test_each_ability_that_a_broker_lacks_is_named(
    tmp_path: Path, broker: Broker, guarded: Guarded
) -> None:
    """Brokers side by side: nearly all of the time is waiting."""
    with ExitStack() as stack:
        places = [
            (ability, stack.enter_context(mosquitto(tmp_path / str(at), settings, rules)))
            for at, (ability, settings, rules) in enumerate(LACKING)
        ]
        direct = Address(broker.host, broker.port)
        places += [
            (ability, stack.enter_context(relayed(direct, change)))
            for ability, change in NOT_HONOURED
        ]
        own = guarded.enroll("server", role="coordinator")
        (guarded.folder / "acl").write_text("user server\ntopic readwrite #\n")
        guarded.broker.reload()
        host, port = split_address(own.broker)
        places.append(("access", Address(host, port, own.name, own.password, own.ca)))
        pool = stack.enter_context(ThreadPoolExecutor(len(places)))
        found = pool.map(lambda place: list(check(place[1], "fl")), places)
        named = [levels(one, "missing") for one in found]
    assert named == [{ability} for ability, _ in places]


def test_a_broker_without_v5_is_named_and_nothing_else_is_tried(broker: Broker) -> None:
    with relayed(Address(broker.host, broker.port), lambda _hello: None) as address:
        found = list(check(address, "fl"))
    assert levels(found, "missing") == {"v5"}
    assert levels(found, "not checked") == BUILT_ON_V5


def test_a_broker_that_is_not_there_is_reported_in_one_line() -> None:
    done = CliRunner().invoke(main, ["check", f"127.0.0.1:{free_port()}"])
    assert done.exit_code != 0
    assert "connection refused" in done.output.lower()
    assert len(done.output.strip().splitlines()) == 1


def test_a_login_that_is_refused_is_reported_in_one_line(guarded: Guarded) -> None:
    viewer = guarded.bundle("screen", role="viewer")
    place = f"{guarded.broker.host}:{guarded.broker.port}"
    done = CliRunner().invoke(main, ["check", place, "--credentials", str(viewer)])
    assert done.exit_code != 0
    assert "expected one for a coordinator" in done.output
    with socket.create_server(("127.0.0.1", 0)) as web:
        thread = threading.Thread(target=answer_as_a_web_server, args=(web,))
        thread.start()
        done = CliRunner().invoke(main, ["check", f"127.0.0.1:{web.getsockname()[1]}"])
        thread.join()
    assert done.exit_code != 0
    assert len(done.output.strip().splitlines()) == 1


def answer_as_a_web_server(listener: socket.socket) -> None:
    client, _ = listener.accept()
    with client:
        client.recv(65536)
        client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
