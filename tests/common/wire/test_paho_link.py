from __future__ import annotations

import dataclasses
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from paho.mqtt import client as mqtt
from paho.mqtt.enums import MQTTErrorCode

from broker.authority import ca_text, ensure_certificate
from broker.process import Broker
from common.access.address import Address, probe, session_name
from common.access.credentials import reach
from common.errors import BrokerError
from common.program.ports import free_port
from common.wire.link import Arrived, Down, Happening, Posted, Refused, Session, Streamed, Up
from common.wire.mqtt.client import make_client
from common.wire.paho_link import MAX_PAYLOAD, WAITING_BYTES, PahoLink, connect
from common.wire.streams import WINDOW
from common.wire.topics import Packet
from tests.broker.mqtt import connected
from tests.broker.raw import publish, raw
from tests.conftest import Guarded

PATIENCE = 20.0
H = TypeVar("H", bound=Happening)


@pytest.fixture
def links() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def address_of(broker: Broker) -> Address:
    return Address(broker.host, broker.port)


def no_will(federation: str) -> Callable[[int], Packet]:
    return lambda connection: Packet(f"{federation}/will", b"%d" % connection, retain=False)


def open_link(
    address: Address, federation: str, *topics: str, name: str | None = None
) -> PahoLink:
    session = Session(
        name or f"{federation}-{secrets.token_hex(4)}",
        subscribe=tuple(f"{federation}/{topic}" for topic in topics or ("none",)),
        will=no_will(federation),
    )
    return connect(address, session)


def connect_as(address: Address, name: str, *topics: str) -> PahoLink:
    """A link with these subscriptions and no will."""
    return connect(address, Session(name, subscribe=topics))


def wait_for(link: PahoLink, kind: type[H], seconds: float = PATIENCE) -> H:
    """The next happening of a kind; messages on the way are confirmed and passed over."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        happening = link.receive(left)
        if isinstance(happening, Arrived):
            link.confirm(happening)
        if isinstance(happening, kind):
            return happening
    pytest.fail(f"no {kind.__name__} within {seconds} s")


def all_within(link: PahoLink, seconds: float) -> list[Happening]:
    end = time.monotonic() + seconds
    found: list[Happening] = []
    while (left := end - time.monotonic()) > 0:
        happening = link.receive(left)
        if isinstance(happening, Arrived):
            link.confirm(happening)
        if happening is not None:
            found.append(happening)
    return found


def ready(link: PahoLink) -> PahoLink:
    """Connected, and its subscriptions are in force: the broker has answered something."""
    assert wait_for(link, Up).connection == 1
    link.stream("ready", iter([Packet("ready/nobody", b"", retain=False)]))
    assert wait_for(link, Streamed) == Streamed("ready")
    return link


def test_what_is_published_arrives(broker: Broker, federation: str, links: ExitStack) -> None:
    link = links.enter_context(open_link(address_of(broker), federation, "a/+", "b"))
    assert wait_for(link, Up) == Up(1)
    assert link.publish(Packet(f"{federation}/a/1", b"one", retain=False))
    assert link.publish(Packet(f"{federation}/c", b"not ours", retain=False))
    assert link.publish(Packet(f"{federation}/b", b"two", retain=False))
    got = [wait_for(link, Arrived) for _ in range(2)]
    assert [(a.topic, a.payload, a.retained) for a in got] == [
        (f"{federation}/a/1", b"one", False),
        (f"{federation}/b", b"two", False),
    ]


def test_what_was_stored_is_told_from_what_is_said_now(
    broker: Broker, federation: str, links: ExitStack
) -> None:
    writer = links.enter_context(open_link(address_of(broker), federation, "state"))
    wait_for(writer, Up)
    writer.publish(Packet(f"{federation}/state", b"old", retain=True))
    assert wait_for(writer, Arrived).retained is False
    reader = links.enter_context(open_link(address_of(broker), federation, "state"))
    first = wait_for(reader, Arrived)
    assert (first.payload, first.retained) == (b"old", True)
    writer.publish(Packet(f"{federation}/state", b"new", retain=True))
    second = wait_for(reader, Arrived)
    assert (second.payload, second.retained) == (b"new", False)


CHILD = """
import sys
from common.access.address import Address
from common.wire.link import Session, Up
from common.wire.paho_link import connect
from common.wire.topics import Packet
port, federation = int(sys.argv[1]), sys.argv[2]
will = lambda connection: Packet(federation + "/will", b"gone %d" % connection, retain=True)
session = Session(federation + "-child", (federation + "/x",), will)
link = connect(Address("127.0.0.1", port), session)
while not isinstance(link.receive(20), Up):
    pass
print("up", flush=True)
sys.stdin.readline()
link.close()
"""


@contextmanager
def child(broker: Broker, federation: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(broker.port), federation],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_a_killed_process_leaves_its_will_and_one_that_closes_none(
    broker: Broker, federation: str, links: ExitStack
) -> None:
    clean, killed = f"{federation}-clean", f"{federation}-killed"
    wanted = (f"{clean}/will", f"{killed}/will")
    watcher = connect(address_of(broker), Session(federation, wanted, no_will(federation)))
    ready(links.enter_context(watcher))
    with child(broker, clean) as process, child(broker, killed) as other:
        process.communicate(b"\n", timeout=PATIENCE)
        assert process.returncode == 0
        other.send_signal(signal.SIGKILL)
        will = wait_for(watcher, Arrived)
    assert (will.topic, will.payload) == (f"{killed}/will", b"gone 1")
    late = links.enter_context(open_link(address_of(broker), killed, "will"))
    stored = wait_for(late, Arrived)
    assert (stored.payload, stored.retained) == (b"gone 1", True)
    assert all_within(watcher, 0.5) == []


def test_a_stream_arrives_whole_and_its_end_is_said(
    broker: Broker, federation: str, links: ExitStack
) -> None:
    sender = links.enter_context(open_link(address_of(broker), federation))
    reader = ready(links.enter_context(open_link(address_of(broker), federation, "part/+")))
    wait_for(sender, Up)
    taken: list[int] = []

    def packets() -> Iterator[Packet]:
        for part in range(50):
            taken.append(part)
            yield Packet(f"{federation}/part/{part}", bytes([part]) * 100_000, retain=False)

    sender.stream("model", packets())
    assert len(taken) == WINDOW
    sender.stream("model", packets())
    assert len(taken) == WINDOW, "a stream that is on its way must not start again"
    assert wait_for(sender, Streamed) == Streamed("model")
    assert taken == list(range(50))
    got = [wait_for(reader, Arrived) for _ in range(50)]
    assert [a.payload for a in got] == [bytes([part]) * 100_000 for part in range(50)]


def test_a_slow_reader_does_not_fill_its_memory(
    broker: Broker, federation: str, links: ExitStack
) -> None:
    sender = links.enter_context(open_link(address_of(broker), federation))
    reader = ready(links.enter_context(open_link(address_of(broker), federation, "part")))
    wait_for(sender, Up)
    size, count = 500_000, 60
    part = Packet(f"{federation}/part", bytes(size), retain=False)
    sender.stream("model", iter([part] * count))
    assert wait_for(sender, Streamed) == Streamed("model")
    most = 0
    for _ in range(count // 2):
        wait_for(reader, Arrived)
        threading.Event().wait(0.01)  # the network is faster than this
        most = max(most, reader._happenings.waiting)
    assert most < WAITING_BYTES + size
    assert most > WAITING_BYTES // 2, "the bound was never near, so nothing was tested"
    reader.close()  # though the network thread waits for room


def test_streams_share_one_window(broker: Broker, federation: str, links: ExitStack) -> None:
    sender = links.enter_context(open_link(address_of(broker), federation))
    wait_for(sender, Up)
    taken = {"a": 0, "b": 0}

    def packets(name: str) -> Iterator[Packet]:
        for _ in range(20):
            taken[name] += 1
            yield Packet(f"{federation}/{name}", b"x" * 1000, retain=False)

    sender.stream("a", packets("a"))
    sender.stream("b", packets("b"))
    assert taken == {"a": WINDOW, "b": 0}
    assert {wait_for(sender, Streamed).token for _ in range(2)} == {"a", "b"}
    assert taken == {"a": 20, "b": 20}


@pytest.mark.slow
def test_after_the_broker_was_killed_the_link_comes_back_by_itself(
    own_broker: Broker, federation: str, links: ExitStack
) -> None:
    link = links.enter_context(open_link(address_of(own_broker), federation, "a"))
    assert wait_for(link, Up) == Up(1)
    own_broker.kill()
    wait_for(link, Down)
    assert not link.publish(Packet(f"{federation}/a", b"while offline", retain=False))
    link.stream("s", iter([Packet(f"{federation}/a", b"while offline", retain=False)]))
    assert all_within(link, 1.5) == [], "that the broker is away is said once"
    own_broker.start()
    back = wait_for(link, Up)
    assert back.connection > 1
    assert link.publish(Packet(f"{federation}/a", b"again", retain=False))
    assert wait_for(link, Arrived).payload == b"again", "nothing is queued while offline"
    link.stream("s", iter([Packet(f"{federation}/a", b"streamed", retain=False)]))
    assert wait_for(link, Streamed) == Streamed("s")


def test_the_right_password_opens_and_a_wrong_one_is_refused_for_good(
    guarded: Guarded, federation: str, links: ExitStack
) -> None:
    bundle = guarded.bundle("attic", "0", federation=federation)
    right = reach(None, bundle, None, "board").address
    assert wait_for(links.enter_context(open_link(right, federation)), Up) == Up(1)
    wrong = dataclasses.replace(right, password="wrong")
    link = links.enter_context(open_link(wrong, federation))
    assert wait_for(link, Refused) == Refused("not authorized")


def test_the_client_id_of_an_account_cannot_be_guessed_by_another() -> None:
    mine = session_name(Address(username="a", password="mine"), "fl-a-1")
    other = session_name(Address(username="b", password="other"), "fl-a-1")
    assert mine.startswith("fl-a-1-")
    assert mine != other, "nobody else can throw us off the broker"
    assert mine == session_name(Address(username="a", password="mine"), "fl-a-1")
    assert session_name(Address(), "fl-a-1") == "fl-a-1"


def test_a_message_without_qos_1_is_counted_and_not_handed_over(
    broker: Broker, federation: str, links: ExitStack
) -> None:
    link = ready(links.enter_context(open_link(address_of(broker), federation, "a")))
    with connected(broker.host, broker.port) as other:
        other.client.publish(f"{federation}/a", b"quiet", 0)
        other.client.publish(f"{federation}/a", b"quiet", 0)
        other.client.publish(f"{federation}/a", b"proper", 1)
        assert wait_for(link, Arrived).payload == b"proper"
    assert link.unread() == {f"{federation}/a": 2}


# paho leaves the socket of a failed handshake to the garbage collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_false_broker_is_named_and_gets_no_password(
    guarded: Guarded, federation: str, links: ExitStack, tmp_path: Path
) -> None:
    ensure_certificate(tmp_path / "other", ["127.0.0.1"])
    right = reach(None, guarded.bundle("attic", "0", federation=federation), None).address
    wrong = dataclasses.replace(right, ca=ca_text(tmp_path / "other"))
    link = links.enter_context(open_link(wrong, federation))
    assert "not from the CA in the credentials file" in wait_for(link, Down).reason


@pytest.mark.slow
def test_of_two_processes_with_one_identity_one_is_refused_and_the_other_goes_on(
    broker: Broker, federation: str, links: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("common.wire.paho_link._KICKS", 4)  # each takes a second or two
    pair = [
        links.enter_context(open_link(address_of(broker), federation, "a", name=federation))
        for _ in range(2)
    ]
    loser: PahoLink | None = None
    end = time.monotonic() + 3 * PATIENCE
    while loser is None and time.monotonic() < end:
        loser = next((link for link in pair if was_refused(link)), None)
    assert loser is not None, "they kick each other for ever"
    loser.close()
    pair.remove(loser)
    assert wait_until_alone(pair[0])


def was_refused(link: PahoLink) -> bool:
    happening = link.receive(0.05)
    if not isinstance(happening, Refused):
        return False
    assert happening.reason == "another process connected with the same identity"
    return True


def wait_until_alone(link: PahoLink) -> bool:
    """Up, and still so after as long as its double would need to come back."""
    while (happening := link.receive(1.6)) is not None:
        assert not isinstance(happening, Refused)
    return link.publish(Packet("a", b"", retain=False))


@pytest.mark.slow
def test_a_broker_that_restarts_again_and_again_is_no_double(
    own_broker: Broker, federation: str, links: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("common.wire.paho_link._KICKS", 4)
    link = links.enter_context(open_link(address_of(own_broker), federation, "a"))
    for _ in range(5):
        wait_for(link, Up)
        own_broker.kill()
        own_broker.start()
        assert isinstance(link.receive(PATIENCE), Down)


def test_a_flood_on_one_topic_is_dropped_and_the_others_get_their_turn(
    broker: Broker, federation: str, links: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("common.wire.inbox.BURST", 50)
    name = f"{federation}-reader"
    with open_link(address_of(broker), federation, "+", name=name) as reader:
        ready(reader)
        flood = [publish(f"{federation}/flood", b"%d" % n) for n in range(2000)]
        with raw(broker) as other:
            other.send(*flood, publish(f"{federation}/honest", b"honest"))
            seen: list[bytes] = []
            while not {b"honest", b"1999"} <= set(seen):
                seen.append(wait_for(reader, Arrived).payload)
        assert len(seen) < 1500, "most of the flood reaches nobody"
        dropped = reader.unread()
        assert set(dropped) == {f"{federation}/flood"}
        assert dropped[f"{federation}/flood"] + len(seen) == 2001
    with open_link(address_of(broker), federation, "+", name=name) as again:
        ready(again)
        assert all_within(again, 0.3) == [], "what was dropped is confirmed: it does not return"
        again.close(forget_session=True)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_closing_leaves_no_thread_and_no_open_file(broker: Broker, federation: str) -> None:
    threads, files = threading.active_count(), open_files()
    for _ in range(3):
        link = open_link(address_of(broker), federation, "a")
        wait_for(link, Up)
        link.publish(Packet(f"{federation}/a", b"x", retain=False))
        link.close(forget_session=True)
        del link
    assert threading.active_count() == threads
    if sys.platform == "linux":
        assert open_files() == files


def test_closing_while_there_is_no_broker_ends(federation: str) -> None:
    link = open_link(Address("127.0.0.1", free_port()), federation)
    assert not link.publish(Packet("a", b"", retain=False))
    wait_for(link, Down)
    link.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("paho")]


def test_what_was_handed_over_before_closing_is_not_lost(
    broker: Broker, federation: str, links: ExitStack
) -> None:
    reader = ready(links.enter_context(open_link(address_of(broker), federation, "big")))
    sender = open_link(address_of(broker), federation)
    wait_for(sender, Up)
    for _ in range(5):
        sender.publish(Packet(f"{federation}/big", b"x" * 500_000, retain=False))
    sender.close(timeout=PATIENCE)
    assert [len(wait_for(reader, Arrived).payload) for _ in range(5)] == [500_000] * 5


def test_what_was_not_confirmed_comes_again_on_the_next_connection(
    broker: Broker, federation: str, links: ExitStack
) -> None:
    sender = links.enter_context(open_link(address_of(broker), federation))
    wait_for(sender, Up)
    with open_link(address_of(broker), federation, "a", name=f"{federation}-b") as link:
        ready(link)
        sender.publish(Packet(f"{federation}/a", b"confirmed", retain=False))
        assert wait_for(link, Arrived).payload == b"confirmed"
        sender.publish(Packet(f"{federation}/a", b"not confirmed", retain=False))
        unconfirmed = link.receive(PATIENCE)
        assert isinstance(unconfirmed, Arrived)
    sender.publish(Packet(f"{federation}/a", b"meanwhile", retain=False))
    with open_link(address_of(broker), federation, "a", name=f"{federation}-b") as again:
        payloads = [wait_for(again, Arrived).payload for _ in range(2)]
        assert payloads == [b"not confirmed", b"meanwhile"]
        again.close(forget_session=True)


def test_a_forgotten_session_gets_nothing_of_what_was_said_meanwhile(
    broker: Broker, federation: str, links: ExitStack
) -> None:
    sender = links.enter_context(open_link(address_of(broker), federation))
    wait_for(sender, Up)
    gone = ready(open_link(address_of(broker), federation, "a", name=f"{federation}-b"))
    gone.close(forget_session=True)
    sender.publish(Packet(f"{federation}/a", b"meanwhile", retain=False))
    sender.stream("sent", iter([Packet(f"{federation}/other", b"", retain=False)]))
    wait_for(sender, Streamed)
    back = open_link(address_of(broker), federation, "a", name=f"{federation}-b")
    links.enter_context(ready(back))
    sender.publish(Packet(f"{federation}/a", b"now", retain=False))
    assert wait_for(back, Arrived).payload == b"now"


def test_a_payload_the_broker_would_hang_up_on_is_dropped_and_said(
    broker: Broker, federation: str, links: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    link = links.enter_context(open_link(address_of(broker), federation, "a"))
    wait_for(link, Up)
    largest = Packet(f"{federation}/a", b"x" * MAX_PAYLOAD, retain=False)
    too_large = Packet(f"{federation}/a", b"x" * (MAX_PAYLOAD + 1), retain=False)
    small = Packet(f"{federation}/a", b"small", retain=False)
    assert link.publish(too_large)
    assert f"not sent: {MAX_PAYLOAD + 1} bytes on {federation}/a" in caplog.text
    link.stream("s", iter([too_large, largest, small]))
    assert len(wait_for(link, Arrived).payload) == MAX_PAYLOAD
    assert wait_for(link, Arrived).payload == b"small"
    assert not [h for h in all_within(link, 0.2) if isinstance(h, Down)]


def test_other_threads_can_put_something_in(
    broker: Broker, federation: str, links: ExitStack
) -> None:
    link = links.enter_context(open_link(address_of(broker), federation))
    thread = threading.Thread(target=link.post, args=("news",))
    thread.start()
    assert wait_for(link, Posted) == Posted("news")
    thread.join()


def test_waiting_for_nothing_ends_in_time(broker: Broker, federation: str) -> None:
    with open_link(address_of(broker), federation) as link:
        wait_for(link, Up)
        assert link.receive(0.05) is None
        assert link.receive(0.0) is None


def test_a_closed_port_is_named_with_the_reason_and_the_cure() -> None:
    port = free_port()
    with pytest.raises(BrokerError) as caught:
        probe(Address("127.0.0.1", port))
    assert str(caught.value) == (
        f"cannot reach the broker at 127.0.0.1:{port}: connection refused; "
        "start one with 'fl-broker up' or name another with --broker HOST:PORT"
    )


def test_a_host_that_does_not_exist_is_named() -> None:
    with pytest.raises(BrokerError, match=r"cannot reach the broker at nowhere\.invalid:1883"):
        probe(Address("nowhere.invalid"))


@contextmanager
def answering(answer: bytes) -> Iterator[Address]:
    """A server that reads something and answers the same to everybody."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield Address("127.0.0.1", server.getsockname()[1])
        thread.join()


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no MQTT broker: it answers 'HTTP/1.1 400"),
        (b"", "closes the connection; expected an MQTT v5 broker"),
    ],
)
def test_what_is_no_broker_is_named(answer: bytes, text: str) -> None:
    with answering(answer) as address, pytest.raises(BrokerError) as caught:
        probe(address)
    assert text in str(caught.value)
    assert "is --broker right?" in str(caught.value)


def test_what_listens_and_does_not_answer_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = Address("127.0.0.1", server.getsockname()[1])
        with pytest.raises(BrokerError, match="does not answer to MQTT"):
            probe(address, timeout=0.05)


def test_a_broker_that_is_there_passes_the_probe(broker: Broker) -> None:
    probe(address_of(broker))


def test_the_broker_forgets_a_link_that_does_not_last(
    broker: Broker, federation: str, links: ExitStack
) -> None:
    """What is said while a viewer is away is not kept for it."""
    name = f"{federation}-viewer"
    wanted = (f"{federation}/news",)
    viewer = connect(address_of(broker), Session(name, wanted, lasting=False))
    wait_for(viewer, Up)
    viewer.close()
    speaker = links.enter_context(open_link(address_of(broker), federation))
    wait_for(speaker, Up)
    speaker.stream("missed", iter([Packet(f"{federation}/news", b"missed", retain=False)]))
    wait_for(speaker, Streamed)
    again = connect(address_of(broker), Session(name, wanted, lasting=False))
    links.callback(again.close)
    wait_for(again, Up)
    arrived = None
    while arrived is None:  # until the subscription is there
        speaker.publish(Packet(f"{federation}/news", b"heard", retain=False))
        happening = again.receive(0.2)
        arrived = happening if isinstance(happening, Arrived) else None
    again.confirm(arrived)
    assert arrived.payload == b"heard"


def test_a_packet_that_is_queued_while_reconnecting_does_not_end_the_network_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []

    def reconnect(_client: mqtt.Client) -> MQTTErrorCode:
        calls.append(1)
        if len(calls) < 3:
            raise RuntimeError("deque mutated during iteration")
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    monkeypatch.setattr(mqtt.Client, "reconnect", reconnect)
    client = make_client(Address("127.0.0.1", 1), "somebody")
    assert client.reconnect() == MQTTErrorCode.MQTT_ERR_SUCCESS
    assert len(calls) == 3
