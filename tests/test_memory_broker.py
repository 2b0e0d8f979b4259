"""The broker in memory behaves as Mosquitto does, as far as the services can see."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

import pytest

from broker.process import Broker
from common.access.address import Address
from common.wire.link import Arrived, Down, Link, Refused, Session, Streamed, Up
from common.wire.paho_link import PahoLink
from common.wire.topics import Packet
from tests.memory_broker import TAKEN_OVER, Killed, MemoryBroker, MemoryLink, matches

PATIENCE = 20.0
Connect = Callable[[Session], Link]


@pytest.fixture(params=["memory", "mosquitto"])
def connect(request: pytest.FixtureRequest) -> Connect:
    """Makes links to one broker, either kind."""
    in_memory = MemoryBroker()
    if request.param == "mosquitto":
        real: Broker = request.getfixturevalue("broker")
        address = Address(real.host, real.port)

    def make(session: Session) -> Link:
        in_memory_or_real = (
            MemoryLink(in_memory) if request.param == "memory" else PahoLink(address)
        )
        in_memory_or_real.open(session)
        until(in_memory_or_real, Up)
        publish(in_memory_or_real, "nowhere", b"")  # then the subscriptions are in force
        return in_memory_or_real

    return make


_passed_over: dict[Link, list[Arrived]] = {}  # by the link that received them


def until(link: Link, *kinds: type[object]) -> object:
    """The next happening of these kinds; messages that come before it are kept for later."""
    kept = _passed_over.setdefault(link, [])
    if kept and Arrived in kinds:
        return kept.pop(0)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        happening = link.receive(0.2)
        if isinstance(happening, kinds):
            return happening
        if isinstance(happening, Arrived):
            kept.append(happening)
    pytest.fail(f"none of {kinds} within {PATIENCE} s")


def next_payloads(link: Link, count: int, *, confirm: bool = True) -> list[tuple[bytes, bool]]:
    found = []
    for _ in range(count):
        arrived = until(link, Arrived)
        assert isinstance(arrived, Arrived)
        if confirm:
            link.confirm(arrived)
        found.append((arrived.payload, arrived.retained))
    return found


def publish(link: Link, topic: str, *payloads: bytes, retain: bool = False) -> None:
    """Publish, and wait until the broker has it."""
    link.stream("all", iter([Packet(topic, payload, retain) for payload in payloads]))
    until(link, Streamed)


def test_a_retained_message_is_told_from_a_new_one_and_an_empty_one_deletes_it(
    connect: Connect, federation: str
) -> None:
    writer = connect(Session(f"{federation}-writer"))
    publish(writer, f"{federation}/a/1", b"old", b"stored", retain=True)
    reader = connect(Session(f"{federation}-reader", (f"{federation}/a/+",)))
    assert next_payloads(reader, 1) == [(b"stored", True)]
    publish(writer, f"{federation}/a/1", b"new", b"", retain=True)
    assert next_payloads(reader, 2) == [(b"new", False), (b"", False)]
    late = connect(Session(f"{federation}-late", (f"{federation}/a/+",)))
    publish(writer, f"{federation}/a/1", b"last")
    assert next_payloads(late, 1) == [(b"last", False)]
    for link in (writer, reader, late):
        link.close(forget_session=True)


def test_a_session_queues_while_its_owner_is_away_and_delivers_again_what_was_not_confirmed(
    connect: Connect, federation: str
) -> None:
    topic = f"{federation}/x"
    session = Session(f"{federation}-reader", (topic,))
    writer, reader = connect(Session(f"{federation}-writer")), connect(session)
    publish(writer, topic, b"1", b"2", b"3")
    assert next_payloads(reader, 1) == [(b"1", False)]
    assert next_payloads(reader, 2, confirm=False) == [(b"2", False), (b"3", False)]
    publish(reader, f"{federation}/nowhere", b"")  # so that the confirmation is there, too
    reader.close()
    publish(writer, topic, b"4")
    again = connect(session)
    assert next_payloads(again, 3) == [(b"2", False), (b"3", False), (b"4", False)]
    for link in (writer, again):
        link.close(forget_session=True)


def test_a_session_that_was_forgotten_queues_nothing(connect: Connect, federation: str) -> None:
    topic = f"{federation}/x"
    session = Session(f"{federation}-reader", (topic,))
    writer, reader = connect(Session(f"{federation}-writer")), connect(session)
    reader.close(forget_session=True)
    publish(writer, topic, b"1")
    again = connect(session)
    publish(writer, topic, b"2")
    assert next_payloads(again, 1) == [(b"2", False)]
    for link in (writer, again):
        link.close(forget_session=True)


def test_the_second_connection_of_a_session_takes_it_over(
    connect: Connect, federation: str
) -> None:
    session = Session(f"{federation}-{secrets.token_hex(2)}", (f"{federation}/x",))
    first = connect(session)
    second = connect(session)
    assert isinstance(until(first, Refused, Down), Refused | Down)
    first.close()
    second.close(forget_session=True)


# what only the broker in memory can be told to do


@pytest.fixture
def broker_in_memory() -> MemoryBroker:
    return MemoryBroker()


def opened(broker: MemoryBroker, name: str, *topics: str) -> MemoryLink:
    link = MemoryLink(broker)
    link.open(Session(name, topics, lambda n: Packet("will", f"{name} {n}".encode(), False)))
    assert link.receive(0) == Up(1)
    return link


def payloads(link: MemoryLink) -> list[bytes]:
    found = []
    while isinstance(arrived := link.receive(0), Arrived):
        link.confirm(arrived)
        found.append(arrived.payload)
    return found


def test_a_will_is_published_after_its_delay_unless_its_owner_is_back(
    broker_in_memory: MemoryBroker,
) -> None:
    reader = opened(broker_in_memory, "reader", "will")
    first, second, third = (opened(broker_in_memory, name) for name in ("a", "b", "c"))
    first.cut()
    assert first.receive(0) == Down("connection lost")
    second.kill()
    third.close()
    broker_in_memory.pass_time(1.5)
    assert first.receive(0) == Up(2)
    assert payloads(reader) == []
    broker_in_memory.pass_time(1.0)
    assert payloads(reader) == [b"b 1"]


def test_a_killed_party_can_do_nothing_and_its_successor_gets_what_it_did_not_confirm(
    broker_in_memory: MemoryBroker,
) -> None:
    link = opened(broker_in_memory, "reader", "x")
    broker_in_memory.publish(Packet("x", b"1", retain=False))
    link.kill_after(1)
    arrived = link.receive(0)
    assert isinstance(arrived, Arrived)
    with pytest.raises(Killed):
        link.confirm(arrived)
    with pytest.raises(Killed):
        link.publish(Packet("y", b"", retain=False))
    assert payloads(opened(broker_in_memory, "reader", "x")) == [b"1"]


def test_what_is_on_its_way_is_lost_with_the_connection(broker_in_memory: MemoryBroker) -> None:
    link = opened(broker_in_memory, "writer")
    reader = opened(broker_in_memory, "reader", "#")
    link.publish(Packet("x", b"1", retain=False))
    assert link.receive(0) is None
    link.publish(Packet("x", b"2", retain=False))
    link.cut()
    assert not isinstance(link.receive(0), Streamed)
    assert not link.publish(Packet("x", b"3", retain=False))
    assert payloads(reader) == [b"1"]


@pytest.mark.parametrize(
    ("lost", "stored", "queued"),
    [
        ("nothing", {"a": b"1", "b": b"3"}, [b"1", b"2", b"3"]),
        ("queues", {"a": b"1", "b": b"2"}, []),
        ("everything", {}, []),
    ],
)
def test_a_broker_that_was_killed_may_have_lost_much(
    broker_in_memory: MemoryBroker, lost: str, stored: dict[str, bytes], queued: list[bytes]
) -> None:
    reader = opened(broker_in_memory, "reader", "a", "b")
    for topic, payload in (("a", b"1"), ("b", b"2"), ("b", b"3")):
        broker_in_memory.publish(Packet(topic, payload, retain=True))
    broker_in_memory.stop()
    assert isinstance(reader.receive(0), Down)
    assert reader.receive(0) is None
    broker_in_memory.start(lost)  # type: ignore[arg-type]  # the parameters are such literals
    broker_in_memory.pass_time(1.0)
    assert reader.receive(0) == Up(2)
    assert broker_in_memory.retained == stored
    assert payloads(reader) == [*queued, *stored.values()]


def test_a_party_whose_session_was_taken_over_is_told_and_does_not_come_back(
    broker_in_memory: MemoryBroker,
) -> None:
    first = opened(broker_in_memory, "same")
    opened(broker_in_memory, "same")
    assert first.receive(0) == Refused(TAKEN_OVER)
    broker_in_memory.pass_time(60.0)
    assert not first.busy


@pytest.mark.parametrize(
    ("pattern", "topic", "match"),
    [
        ("a/+", "a/b", True),
        ("a/+", "a", False),
        ("a/+", "a/b/c", False),
        ("a/#", "a/b/c", True),
        ("a/#", "a", True),
        ("#", "a/b", True),
        ("a/+/c", "a/x/c", True),
        ("a/b", "a/c", False),
    ],
)
def test_topic_filters(pattern: str, topic: str, match: bool) -> None:
    assert matches(pattern, topic) is match
