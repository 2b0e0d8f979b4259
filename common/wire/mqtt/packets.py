"""PURE: incoming MQTT v5 packets with their properties cut out.

Nothing here uses a property of an incoming packet, but any publisher can attach some to its
messages, and brokers pass them on. paho 2.2.0 parses them in quadratic time (200,000 empty ones
take minutes) and ends the connection at text that the standard forbids and brokers let through,
such as U+FEFF. So paho gets packets without them; their length is read, their content is not.
"""

from __future__ import annotations

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


def without_properties(command: int, packet: bytearray) -> bytearray:
    """The packet as a peer without properties would have sent it; `command` is its first byte.

    A PUBLISH whose properties are longer than itself loses its payload: what cannot be read is
    dropped and confirmed by its receiver like any other nonsense.
    """
    kind = command & 0xF0
    if kind == PUBLISH:
        return _cut(packet, _publish_head(command, packet))
    if kind in {SUBACK, UNSUBACK}:
        return _cut(packet, 2)
    if kind in {PUBACK, PUBREC, PUBREL, PUBCOMP}:
        return packet[:3]  # packet id, reason
    if kind == DISCONNECT:
        return packet[:1]  # reason
    if kind == CONNACK:
        return packet[:2] + _NONE  # flags, reason
    return packet


def _publish_head(command: int, packet: bytearray) -> int:
    """The length of what stands before the properties: topic, and packet id if there is one."""
    topic = int.from_bytes(packet[:2], "big")
    return 2 + topic + (2 if command & 0x06 else 0)


def _cut(packet: bytearray, head: int) -> bytearray:
    """The packet without the properties that begin behind `head` bytes."""
    length = used = 0
    for byte in packet[head : head + _LENGTH_BYTES]:
        length |= (byte & 0x7F) << (7 * used)
        used += 1
        if byte < 0x80:
            break
    if length == 0 and used == 1:
        return packet
    return packet[:head] + _NONE + packet[head + used + length :]
