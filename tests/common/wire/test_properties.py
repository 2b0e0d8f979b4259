"""MQTT v5 properties that others attach to their messages: through the real Mosquitto."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.process import Broker
from common.wire.link import Arrived
from common.wire.mqtt.packets import (
    PUBLISH,
    Published,
    read_puback,
    read_publish,
    without_properties,
)
from common.wire.topics import Packet
from tests.broker.raw import (
    CONTENT_TYPE,
    CORRELATION,
    PAYLOAD_FORMAT,
    USER,
    data,
    packet,
    publish,
    raw,
    text,
    user_property,
    variable,
)
from tests.common.wire.test_paho_link import address_of, open_link, ready, wait_for

FORBIDDEN_TEXT = "\ufeff"
ODD = {
    "a user property with U+FEFF": user_property(FORBIDDEN_TEXT, "x"),
    "U+FEFF as its value": user_property("x", FORBIDDEN_TEXT),
    "a content type with U+FEFF": bytes([CONTENT_TYPE]) + text(FORBIDDEN_TEXT),
    "a payload said to be text": bytes([PAYLOAD_FORMAT, 1]),
    "correlation data": bytes([CORRELATION]) + data(bytes(range(256))),
    "200,000 empty user properties": (bytes([USER]) + data(b"") + data(b"")) * 200_000,
    "an alias for its topic": bytes([0x23, 0, 1]),
}


@pytest.fixture
def links() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("properties", ODD.values(), ids=ODD)
def test_properties_of_others_neither_end_nor_delay_a_reader(
    own_broker: Broker, federation: str, links: ExitStack, properties: bytes
) -> None:
    topic = f"{federation}/a"
    reader = ready(links.enter_context(open_link(address_of(own_broker), federation, "a")))
    with raw(own_broker) as other:
        assert other.publish(topic, b"odd", properties=properties, retain=True) == 0
        first = reader.receive(20)
        assert isinstance(first, Arrived), "the connection stays"
        assert (first.topic, first.payload) == (topic, b"odd")
        assert other.publish(topic + "/next") in (0, 0x10)
    assert reader.publish(Packet(topic, b"next", retain=False))
    assert wait_for(reader, Arrived).payload == b"next"
    reader.confirm(first)
    # for every later subscriber, and after a restart of the broker
    own_broker.restart()
    late = links.enter_context(open_link(address_of(own_broker), federation, "a"))
    stored = wait_for(late, Arrived)
    assert (stored.payload, stored.retained) == (b"odd", True)


def test_a_session_with_such_a_message_waiting_can_be_taken_up_again(
    broker: Broker, federation: str
) -> None:
    name = f"{federation}-sleeper"
    with open_link(address_of(broker), federation, "a", name=name) as link:
        ready(link)
    with raw(broker) as other:
        other.publish(f"{federation}/a", b"odd", properties=user_property("\ufeff", ""))
    for _ in range(2):  # not confirmed the first time, so it comes twice
        with open_link(address_of(broker), federation, "a", name=name) as link:
            ready_or_arrived = link.receive(20)
            while not isinstance(ready_or_arrived, Arrived):
                ready_or_arrived = link.receive(20)
            assert ready_or_arrived.payload == b"odd"
    link.close(forget_session=True)


blocks = st.binary(max_size=300)


@given(st.text(max_size=20), blocks, st.binary(max_size=50))
def test_the_block_is_cut_out_whatever_it_holds(
    topic: str, properties: bytes, payload: bytes
) -> None:
    sent = publish(topic, payload, properties=properties)
    body = bytearray(sent[1 + len(variable(_length(sent))) :])
    found = read_publish(sent[0], body)
    assert (found.topic, found.payload) == (topic.encode(), payload)


def _length(sent: bytes) -> int:
    length = shift = 0
    for byte in sent[1:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return length


@given(st.integers(0, 255), st.binary(max_size=100))
def test_no_packet_is_too_odd_to_be_read(command: int, body: bytes) -> None:
    assert len(without_properties(command, bytearray(body))) <= len(body) + 1
    found = read_publish(command, bytearray(body))
    assert len(found.topic) + len(found.payload) <= len(body)
    assert all(0 <= number < 2**16 for number in (found.mid, *read_puback(bytearray(body))))


def test_properties_longer_than_their_packet_leave_an_empty_payload() -> None:
    body = bytearray(text("t") + b"\0\7" + variable(1000) + b"short")
    assert read_publish(PUBLISH | 2, body) == Published(b"t", 7, b"")


def test_a_message_without_confirmation_has_no_packet_id() -> None:
    body = bytearray(text("t") + b"\0" + b"\0\7")
    assert read_publish(PUBLISH, body) == Published(b"t", 0, b"\0\7")


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        (b"\0\7", (7, 0)),
        (b"\0\7\x10", (7, 16)),
        (b"\1\0\x87" + b"\x05\x1f\0\2hi", (256, 0x87)),
    ],
)
def test_an_acknowledgement_has_a_packet_id_and_a_reason(
    sent: bytes, found: tuple[int, int]
) -> None:
    assert read_puback(bytearray(sent)) == found


@pytest.mark.parametrize(
    ("command", "sent", "left"),
    [
        (0x20, b"\0\0" + b"\x05\x1f\0\2hi", b"\0\0\0"),
        (0x50, b"\0\7\x10" + b"\x05\x1f\0\2hi", b"\0\7\x10"),
        (0x50, b"\0\7", b"\0\7"),
        (0x90, b"\0\7" + b"\x05\x1f\0\2hi" + b"\1\x87", b"\0\7\0\1\x87"),
        (0xE0, b"\x8e" + b"\x05\x1f\0\2hi", b"\x8e"),
        (0xE0, b"", b""),
        (0xD0, b"", b""),
    ],
)
def test_answers_of_the_broker_keep_their_codes(command: int, sent: bytes, left: bytes) -> None:
    assert packet(command, sent)[0] == command
    assert without_properties(command, bytearray(sent)) == left
