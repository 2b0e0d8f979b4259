"""MQTT v5 by hand: what a library would not send, as fast as a socket takes it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from broker.process import Broker
from common.access.credentials import Credentials, split_address
from common.access.tls import client_context

WAIT_SECONDS = 30.0
NOT_AUTHORIZED = 0x87
PAYLOAD_FORMAT, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION, USER = 0x01, 0x03, 0x08, 0x09, 0x26


def text(value: str) -> bytes:
    return data(value.encode())


def data(value: bytes) -> bytes:
    return len(value).to_bytes(2, "big") + value


def variable(value: int) -> bytes:
    """A variable byte integer."""
    out = bytearray()
    while True:
        value, low = divmod(value, 128)
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def user_property(name: str, value: str) -> bytes:
    return bytes([USER]) + text(name) + text(value)


def packet(command: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return bytes([command]) + variable(len(body)) + body


def publish(
    topic: str, payload: bytes, *, properties: bytes = b"", retain: bool = False, mid: int = 1
) -> bytes:
    """A PUBLISH with QoS 1."""
    return packet(
        0x33 if retain else 0x32,
        text(topic),
        mid.to_bytes(2, "big"),
        variable(len(properties)),
        properties,
        payload,
    )


class Raw:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection

    def login(
        self, credentials: Credentials | None, client_id: str, session_seconds: int
    ) -> int:
        """The broker's reason code."""
        flags, login = 0x00, b""
        if credentials is not None:
            flags, login = 0xC0, text(credentials.name) + text(credentials.password)
        expiry = bytes([0x11]) + session_seconds.to_bytes(4, "big")
        header = text("MQTT") + bytes([5, flags, 0, 0]) + variable(len(expiry)) + expiry
        self.send(packet(0x10, header, text(client_id), login))
        command, body = self.receive()
        assert command == 0x20
        return body[1]

    def send(self, *packets: bytes) -> None:
        self.socket.sendall(b"".join(packets))

    def receive(self) -> tuple[int, bytes]:
        """The next packet: its first byte and its body."""
        command = self._exactly(1)[0]
        length = shift = 0
        while True:
            byte = self._exactly(1)[0]
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return command, self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            part = self.socket.recv(count - len(found))
            if not part:
                raise ConnectionResetError
            found += part
        return found

    def subscribe(self, topic: str) -> None:
        self.send(packet(0x82, b"\0\1", b"\0", text(topic), b"\1"))
        while self.receive()[0] != 0x90:
            pass

    def publish(
        self, topic: str, payload: bytes = b"", *, properties: bytes = b"", retain: bool = False
    ) -> int:
        """Publish with QoS 1; the broker's reason code."""
        self.send(publish(topic, payload, properties=properties, retain=retain))
        while True:
            command, body = self.receive()
            if command == 0x40:
                return body[2] if len(body) > 2 else 0


@contextmanager
def raw(
    broker: Broker,
    credentials: Credentials | None = None,
    *,
    client_id: str = "",
    session_seconds: int = 0,
) -> Iterator[Raw]:
    """Logged in, with a session that lasts as long as wanted."""
    with opened(broker, credentials) as connection:
        found = Raw(connection)
        assert found.login(credentials, client_id, session_seconds) == 0
        yield found


def login_code(broker: Broker, credentials: Credentials) -> int | None:
    """The broker's answer to a login; None if there is no broker."""
    try:
        with opened(broker, credentials) as connection:
            return Raw(connection).login(credentials, "", 0)
    except OSError:
        return None


@contextmanager
def opened(broker: Broker, credentials: Credentials | None = None) -> Iterator[socket.socket]:
    """A connection without a login."""
    place = broker.host, broker.port
    if credentials is not None:
        place = split_address(credentials.broker)
    with socket.create_connection(place, WAIT_SECONDS) as plain:
        if credentials is None:
            yield plain
            return
        context = client_context(credentials.ca)
        with context.wrap_socket(plain, server_hostname=place[0]) as guarded:
            yield guarded
