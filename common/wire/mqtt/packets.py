"""PURE: incoming MQTT v5 packets, read without their properties.

Nothing here uses a property of an incoming packet, but any publisher can attach some to its
messages, and brokers pass them on. paho 2.2.0 parses them in quadratic time (200,000 empty ones
take minutes) and ends the connection at text that the standard forbids and brokers let through,
such as U+FEFF. So paho gets packets without them; their length is read, their content is not.
Messages and acknowledgements, of which there are many, are read here: paho copies a payload
four times and makes an object for the properties of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PUBLISH: Final = 0x30
PUBACK: Final = 0x40
PUBREC: Final = 0x50
PUBREL: Final = 0x60
PUBCOMP: Final = 0x70
SUBACK: Final = 0x90
UNSUBACK: Final = 0xB0
DISCONNECT: Final = 0xE0
CONNACK: Final = 0x20

_NONE = b"\0"  # the length of no properties
_LENGTH_BYTES = 4  # of a variable byte integer, at most


@dataclass(frozen=True, slots=True)
class Published:
    """A message: its topic as it was sent, its packet id (0 with QoS 0) and its payload."""

    topic: bytes
    mid: int
    payload: bytes


def read_publish(command: int, packet: bytearray) -> Published:
    """What a PUBLISH says; `command` is its first byte.

    One whose properties are longer than itself has no payload: what cannot be read is dropped
    and confirmed by its receiver like any other nonsense.
    """
    name_end = 2 + int.from_bytes(packet[:2], "big")
    head = name_end + (2 if command & 0x06 else 0)
    mid = int.from_bytes(packet[name_end:head], "big")
    with memoryview(packet) as whole:
        payload = bytes(whole[head + _properties_size(packet, head) :])
    return Published(bytes(packet[2:name_end]), mid, payload)


def read_puback(packet: bytearray) -> tuple[int, int]:
    """The packet id of what is acknowledged, and the reason: 0 if all is well."""
    return int.from_bytes(packet[:2], "big"), packet[2] if len(packet) > 2 else 0


def without_properties(command: int, packet: bytearray) -> bytearray:
    """A packet as a peer without properties would have sent it; `command` is its first byte."""
    kind = command & 0xF0
    if kind in {SUBACK, UNSUBACK}:
        return packet[:2] + _NONE + packet[2 + _properties_size(packet, 2) :]
    if kind in {PUBREC, PUBREL, PUBCOMP}:
        return packet[:3]  # packet id, reason
    if kind == DISCONNECT:
        return packet[:1]  # reason
    if kind == CONNACK:
        return packet[:2] + _NONE  # flags, reason
    return packet


def _properties_size(packet: bytearray, at: int) -> int:
    """The length of the properties that begin there, with that of the length itself."""
    length = used = 0
    for byte in packet[at : at + _LENGTH_BYTES]:
        length |= (byte & 0x7F) << (7 * used)
        used += 1
        if byte < 0x80:
            break
    return used + length
