"""A link that can be cut, frozen and slowed, with real sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from fl_server.lab.relay import Relay, Shape


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that sends everything back."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65536):
                    connection.sendall(data)
            except OSError:
                return

    def accept() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield server.getsockname()[1]
    server.close()


@pytest.fixture
def relay(echo: int) -> Iterator[Relay]:
    relay = Relay(echo)
    yield relay
    relay.close()


def connect(relay: Relay) -> socket.socket:
    return socket.create_connection(("127.0.0.1", relay.port), 10)


def answer(connection: socket.socket, data: bytes) -> bytes:
    threading.Thread(target=connection.sendall, args=(data,), daemon=True).start()
    found = bytearray()
    while len(found) < len(data) and (part := connection.recv(65536)):
        found += part
    return bytes(found)


def is_broken(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except OSError:
        return True


def test_everything_passes_unchanged(relay: Relay) -> None:
    data = bytes(range(256)) * 4096
    with connect(relay) as connection:
        assert answer(connection, data) == data


def test_a_cut_breaks_connections_and_refuses_new_ones_until_it_is_whole_again(
    relay: Relay,
) -> None:
    with connect(relay) as connection:
        assert answer(connection, b"before") == b"before"
        relay.cut()
        assert is_broken(connection)
    with connect(relay) as refused:
        assert is_broken(refused)
    relay.restore()
    with connect(relay) as again:
        assert answer(again, b"after") == b"after"


def test_a_frozen_link_says_nothing_and_loses_nothing(relay: Relay) -> None:
    with connect(relay) as connection:
        assert answer(connection, b"before") == b"before"
        relay.freeze()
        connection.sendall(b"held")
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(4)
        relay.restore()
        connection.settimeout(10)
        assert connection.recv(4) == b"held"


def test_a_slow_link_delays_and_paces(relay: Relay) -> None:
    relay.shape = Shape(delay=0.2, rate=1e6)
    with connect(relay) as connection:
        began = time.monotonic()
        assert answer(connection, b"x" * 200_000) == b"x" * 200_000
        assert (
            time.monotonic() - began >= 0.4 + 0.2
        )  # a lower bound: two delays, 200 kB at 1 MB/s
