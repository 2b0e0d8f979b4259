"""One MQTT v5 connection by hand: what `check` must see and send, and a library hides."""

from __future__ import annotations

import socket
import ssl
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from common.access.address import Address
from common.access.tls import client_context
from common.errors import ProtocolError
from common.wire.mqtt.packets import CONNACK, DISCONNECT, PUBACK, PUBLISH, SUBACK

SESSION_EXPIRY, WILL_DELAY, RECEIVE_MAXIMUM = 0x11, 0x18, 0x21
MAXIMUM_QOS, RETAIN_AVAILABLE, MAXIMUM_PACKET, WILDCARDS = 0x24, 0x25, 0x27, 0x28
OLD_VERSIONS = {0x01, 0x84}  # how a broker without v5 answers: in its own words, or in v5's
_BYTES = {0x24: 1, 0x25: 1, 0x28: 1, 0x29: 1, 0x2A: 1, 0x13: 2, 0x21: 2, 0x22: 2}
_BYTES |= {SESSION_EXPIRY: 4, MAXIMUM_PACKET: 4}
_TEXTS = {0x12: 1, 0x15: 1, 0x16: 1, 0x1A: 1, 0x1C: 1, 0x1F: 1, 0x26: 2}  # how many in a row
_MOST_BYTES = 4 * 1024 * 1024  # nothing that we ask for is larger
_WINDOW = 20  # messages on their way at once; every broker allows that many


@dataclass(frozen=True, slots=True)
class Message:
    """A PUBLISH that has arrived."""

    topic: str
    payload: bytes
    retained: bool
    qos: int
    mid: int


@dataclass(frozen=True, slots=True)
class Login:
    """How to connect; `will` is a topic and a payload."""

    client_id: str
    clean: bool = True
    session_seconds: int = 0
    keepalive: int = 30
    receive_maximum: int = 65535
    will: tuple[str, bytes] | None = None
    will_delay_seconds: int = 0


@dataclass(slots=True)
class Connection:
    """Connected and logged in, or refused with `code`; every wait ends after `seconds`."""

    socket: socket.socket
    seconds: float
    code: int = 0
    session_present: bool = False
    announced: Mapping[int, int] = field(default_factory=dict)
    _arrived: deque[Message] = field(default_factory=deque)
    _unread: bytearray = field(default_factory=bytearray)
    _mid: int = 0

    def subscribe(self, topic: str) -> int:
        """Read a topic with QoS 1; the reason code, which is the granted QoS below 0x80."""
        self._send(0x82, self._next_mid(), b"\0", _text(topic), b"\x01")
        return self._await(SUBACK)[-1]

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> int:
        """Send with QoS 1 and wait for the broker's reason code."""
        return max(self.publish_all([(topic, payload)], retain=retain))

    def publish_all(
        self, messages: Iterable[tuple[str, bytes]], *, retain: bool = False
    ) -> list[int]:
        """Send many; the reason codes."""
        codes, waiting = [], 0
        for topic, payload in messages:
            if waiting == _WINDOW:
                codes.append(_reason(self._await(PUBACK)))
                waiting -= 1
            head = 0x33 if retain else 0x32
            self._send(head, _text(topic), self._next_mid(), b"\0", payload)
            waiting += 1
        return codes + [_reason(self._await(PUBACK)) for _ in range(waiting)]

    def receive(self, seconds: float | None = None, *, confirm: bool = True) -> Message | None:
        """The next message, or None if none comes in that time."""
        end = time.monotonic() + (self.seconds if seconds is None else seconds)
        while not self._arrived:
            packet = self._packet(end)
            if packet is None:
                return None
            self._note(*packet)
        message = self._arrived.popleft()
        if confirm:
            self.confirm(message)
        return message

    def confirm(self, message: Message) -> None:
        """Acknowledge a message."""
        if message.qos:
            self._send(PUBACK, message.mid.to_bytes(2, "big"))

    def ended(self, seconds: float) -> bool:
        """Whether the broker ends this connection in that time."""
        end = time.monotonic() + seconds
        try:
            while (packet := self._packet(end)) is not None:
                self._note(*packet)
        except (ConnectionError, ProtocolError):
            return True
        return False

    def disconnect(self) -> None:
        """End connection and session; the broker publishes no will."""
        properties = bytes([SESSION_EXPIRY]) + bytes(4)
        self._send(DISCONNECT, b"\0", bytes([len(properties)]), properties)
        self.drop()

    def drop(self) -> None:
        """End the connection without a word, as a killed process does."""
        self.socket.close()

    def _next_mid(self) -> bytes:
        self._mid = self._mid % 65535 + 1
        return self._mid.to_bytes(2, "big")

    def log_in(self, address: Address, login: Login) -> None:
        """Send CONNECT and take the answer."""
        flags, tail = (0x02 if login.clean else 0), _text(login.client_id)
        if login.will is not None:
            flags |= 0x0C  # QoS 1
            delay = bytes([WILL_DELAY]) + login.will_delay_seconds.to_bytes(4, "big")
            topic, payload = login.will
            tail += bytes([len(delay)]) + delay + _text(topic) + _binary(payload)
        if address.username is not None:
            flags |= 0xC0
            tail += _text(address.username) + _text(address.password or "")
        properties = bytes([SESSION_EXPIRY]) + login.session_seconds.to_bytes(4, "big")
        properties += bytes([RECEIVE_MAXIMUM]) + login.receive_maximum.to_bytes(2, "big")
        keepalive = login.keepalive.to_bytes(2, "big")
        start = _text("MQTT") + bytes([5, flags]) + keepalive
        self._send(0x10, start, bytes([len(properties)]), properties, tail)
        answer = self._await(CONNACK)
        if len(answer) < 2:
            raise ProtocolError("its answer to a login is too short")
        self.session_present, self.code = bool(answer[0] & 1), answer[1]
        self.announced = _properties(answer[2:])

    def _send(self, head: int, *parts: bytes) -> None:
        body = b"".join(parts)
        self.socket.settimeout(self.seconds)
        self.socket.sendall(bytes([head]) + _variable(len(body)) + body)

    def _await(self, kind: int) -> bytes:
        end = time.monotonic() + self.seconds
        while (packet := self._packet(end)) is not None:
            if packet[0] & 0xF0 == kind:
                return packet[1]
            self._note(*packet)
        raise ProtocolError(f"it did not answer within {self.seconds:.0f} s")

    def _note(self, head: int, body: bytes) -> None:
        if head & 0xF0 == DISCONNECT:
            reason = f" with reason 0x{body[0]:02x}" if body else ""
            raise ProtocolError(f"it ended the connection{reason}")
        if head & 0xF0 == PUBLISH:
            self._arrived.append(_message(head, body))

    def _packet(self, end: float) -> tuple[int, bytes] | None:
        """The next packet, or None if it is not there at that time."""
        while (found := _first_packet(self._unread)) is None:
            left = end - time.monotonic()
            if left <= 0:
                return None
            self.socket.settimeout(left)
            try:
                data = self.socket.recv(65536)
            except (TimeoutError, ssl.SSLWantReadError):
                return None
            if not data:
                raise ConnectionResetError("it ended the connection")
            self._unread += data
        head, body, size = found
        del self._unread[:size]
        return head, body


def connected(address: Address, login: Login, seconds: float) -> Connection:
    """A connection with the broker's answer to its login, whatever that is."""
    plain = socket.create_connection((address.host, address.port), seconds)
    try:
        if address.ca is not None:
            context = client_context(address.ca)
            plain = context.wrap_socket(plain, server_hostname=address.host)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found = Connection(plain, seconds)
        found.log_in(address, login)
    except BaseException:
        plain.close()
        raise
    return found


def _first_packet(data: bytearray) -> tuple[int, bytes, int] | None:
    """First byte, body and size of the first packet, if it is whole."""
    length = shift = 0
    for at, byte in enumerate(data[1:5], 2):
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            if length > _MOST_BYTES:
                raise ProtocolError(f"it sent a packet of {length} bytes")
            size = at + length
            return (data[0], bytes(data[at:size]), size) if len(data) >= size else None
    if len(data) > 4:
        raise ProtocolError("what answers there does not speak MQTT")
    return None


def _message(head: int, body: bytes) -> Message:
    topic_end = 2 + int.from_bytes(body[:2], "big")
    qos, rest = (head >> 1) & 3, body[topic_end:]
    mid, rest = (int.from_bytes(rest[:2], "big"), rest[2:]) if qos else (0, rest)
    length, used = _read_variable(rest)
    topic = body[2:topic_end].decode(errors="replace")
    return Message(topic, rest[used + length :], bool(head & 1), qos, mid)


def _reason(body: bytes) -> int:
    """The reason code of a PUBACK; left out when all is well."""
    return body[2] if len(body) > 2 else 0


def _properties(data: bytes) -> dict[int, int]:
    """The numbers among a packet's properties."""
    length, used = _read_variable(data)
    data, found = data[used : used + length], {}
    while data:
        name, data = data[0], data[1:]
        if name in _BYTES:
            found[name] = int.from_bytes(data[: _BYTES[name]], "big")
            data = data[_BYTES[name] :]
        elif name in _TEXTS:
            for _ in range(_TEXTS[name]):
                data = data[2 + int.from_bytes(data[:2], "big") :]
        else:
            raise ProtocolError(f"it announced an unknown property 0x{name:02x}")
    return found


def _read_variable(data: bytes) -> tuple[int, int]:
    length = 0
    for at, byte in enumerate(data[:4]):
        length |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            return length, at + 1
    return 0, 0


def _variable(value: int) -> bytes:
    out = bytearray()
    while True:
        value, low = divmod(value, 128)
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def _text(value: str) -> bytes:
    return _binary(value.encode())


def _binary(value: bytes) -> bytes:
    return len(value).to_bytes(2, "big") + value
