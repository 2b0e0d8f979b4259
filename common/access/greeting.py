"""Whether what listens at an address speaks MQTT: one CONNECT, and what comes back."""

from __future__ import annotations

import secrets
import socket
import struct

CONNECT, CONNACK, DISCONNECT = 0x10, 0x20, b"\xe0\x00"
_CLEAN_START, _PASSWORD, _USERNAME = 0x02, 0x40, 0x80
_V5, _KEEP_ALIVE_SECONDS, _NO_PROPERTIES = 5, 30, b"\x00"


def greet(connection: socket.socket, username: str | None, password: str | None) -> str:
    """Empty if an MQTT broker answers, whatever it answers; else what answered instead."""
    connection.sendall(_connect(username, password))
    try:
        answer = connection.recv(64)
    except TimeoutError:
        return "what listens there does not answer to MQTT"
    except ConnectionError:
        answer = b""
    if not answer:
        return "what listens there closes the connection; expected an MQTT v5 broker"
    if answer[0] != CONNACK:
        shown = answer.split(b"\r", 1)[0][:40].decode("latin-1")
        return f"what listens there is no MQTT broker: it answers {shown!r}"
    connection.sendall(DISCONNECT)
    return ""


def _connect(username: str | None, password: str | None) -> bytes:
    """A CONNECT packet (MQTT 5, section 3.1) that leaves no session behind."""
    flags = _CLEAN_START
    payload = _text(f"probe-{secrets.token_hex(6)}")
    if username is not None:
        flags |= _USERNAME
        payload += _text(username)
    if password is not None:
        flags |= _PASSWORD
        payload += _text(password)
    head = _text("MQTT") + struct.pack("!BBH", _V5, flags, _KEEP_ALIVE_SECONDS)
    body = head + _NO_PROPERTIES + payload
    return bytes([CONNECT]) + _length(len(body)) + body


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("!H", len(encoded)) + encoded


def _length(size: int) -> bytes:
    """A number as MQTT writes lengths: seven bits a byte, the lowest first."""
    out = bytearray()
    while True:
        size, low = divmod(size, 128)
        out.append(low | (128 if size else 0))
        if not size:
            return bytes(out)
