"""What a stolen account can do: everything is tried against the real Mosquitto."""

from __future__ import annotations

from itertools import product

import pytest

from broker.acl import Account, acl_text
from common.access.credentials import Credentials
from common.wire.topics import TOPICS
from tests.broker.intruder import NOT_AUTHORIZED, OK, Intruder, intruder
from tests.conftest import Guarded
from tests.e2e.rig import eventually

FEDERATIONS = ("fl", "lab")
LEVELS = ("0", "1", "5", "7", "pi-1", "pi-2", "@coordinator", "pi-1/0", "00", "0 ", "")
# What board pi-1 with the clients 0 and 1 is there for; written out, not computed.
MAY_SAY = {
    "fl/client/connected/pi-1",
    "fl/server/receive_info/0",
    "fl/server/receive_info/1",
    "fl/server/receive_weights/0",
    "fl/server/receive_weights/1",
    "fl/client/test_metrics/0",
    "fl/client/test_metrics/1",
}
MAY_HEAR = {
    "fl/client/connected/pi-1",
    "fl/client/connected/@coordinator",
    "fl/client/train_detail",
    *(f"fl/server/send_weights/{level}" for level in LEVELS if "/" not in level),
    *(f"fl/server/send_weights/to/{client}/{part}" for client in "01" for part in "01"),
    "fl/server/current_round",
    "fl/client/selected",
    "fl/train/end",
}
WIDE = (
    "#", "+/#", "fl/#", "lab/#", "+/+/+", "+/server/+/#", "fl/server/#", "fl/client/+",
    "fl/client/connected/+", "fl/server/receive_weights/+", "fl/server/receive_info/#",
    "fl/server/send_weights/#", "fl/server/send_weights/to/#", "fl/server/send_weights/to/+/+",
    "$SYS/#", "$SYS/broker/clients/connected", "$share/thieves/fl/#",
    "$share/thieves/fl/server/receive_weights/+",
)  # fmt: skip


def every_topic() -> list[str]:
    """All nine topics, in both federations, for everybody: own, others', the coordinator's."""
    found = []
    for federation, row in product(FEDERATIONS, TOPICS):
        stem, plus, _ = row.pattern.partition("+")
        levels = LEVELS if plus else ("", "/0", "/pi-1")
        found += [f"{federation}/{stem}{level}" for level in levels]
        found.append(f"{federation}/{stem}0/more")
    for federation, client, part in product(FEDERATIONS, "0157", "01"):
        found.append(f"{federation}/server/send_weights/to/{client}/{part}")
    found += ["fl", "fl/", "/fl/train/end", "fl//train/end", "FL/train/end", "other"]
    return sorted(set(found))


@pytest.fixture
def people(guarded: Guarded) -> dict[str, Credentials]:
    """Everybody of two federations."""
    return {
        "pi-1": guarded.enroll("pi-1", "0-1"),
        "pi-2": guarded.enroll("pi-2", "5"),
        "server": guarded.enroll("server", role="coordinator"),
        "screen": guarded.enroll("screen", role="viewer"),
        "lab-server": guarded.enroll("lab-server", role="coordinator", federation="lab"),
        "lab-pi": guarded.enroll("lab-pi", "0-9", federation="lab"),
    }


def say_everything(people: dict[str, Credentials], *, retain: bool) -> set[str]:
    """Everybody says all that they may; the topics this reached."""
    said = set()
    for name in ("pi-2", "server", "lab-server", "lab-pi"):
        with intruder(people[name]) as other:
            for topic in every_topic():
                if other.publish(topic, name.encode(), retain=retain) != NOT_AUTHORIZED:
                    said.add(topic)
    return said


def test_a_stolen_board_account_can_say_only_what_its_board_says(
    people: dict[str, Credentials],
) -> None:
    with (
        intruder(people["pi-1"]) as thief,
        intruder(people["server"]) as server,
        intruder(people["lab-server"]) as lab_server,
    ):
        server.subscribe(["fl/#"])
        lab_server.subscribe(["lab/#"])
        topics = [*every_topic(), "$SYS/broker/uptime", "$CONTROL/dynamic-security/v1"]
        for payload, retain in ((b"x", False), (b"y", True), (b"", True)):
            codes = {topic: thief.publish(topic, payload, retain=retain) for topic in topics}
            allowed = {topic for topic, code in codes.items() if code != NOT_AUTHORIZED}
            assert allowed == MAY_SAY
        for topic in topics:  # without an answer: only what arrives can tell
            thief.client.publish(topic, b"quietly", 0)
        assert thief.publish("fl/client/connected/pi-1", b"last") in OK
        heard = server.heard_until(b"last")
        assert set(heard) == MAY_SAY
        assert lab_server.publish("lab/train/end", b"last") in OK
        assert lab_server.heard_until(b"last") == {}


def test_a_topic_alias_is_no_way_around(people: dict[str, Credentials]) -> None:
    with intruder(people["pi-1"]) as thief, intruder(people["server"]) as server:
        server.subscribe(["fl/#"])
        assert thief.publish("fl/train/end", b"alias", alias=1) == NOT_AUTHORIZED
        thief.say_by_alias(b"alias", 1)
        assert thief.publish("fl/server/receive_info/0", b"last") in OK
        assert server.heard_until(b"last") == {}


@pytest.mark.parametrize("retained", [True, False], ids=["stored", "live"])
def test_a_stolen_board_account_hears_only_what_its_board_reads(
    people: dict[str, Credentials], retained: bool
) -> None:
    with intruder(people["pi-1"]) as thief, intruder(people["server"]) as server:
        if retained:
            said = say_everything(people, retain=True)
            codes = thief.subscribe([*every_topic(), *WIDE])
        else:
            codes = thief.subscribe([*every_topic(), *WIDE])
            said = say_everything(people, retain=False)
        assert len(said) > 60
        # Mosquitto grants every subscription; it is the deliveries that it refuses.
        assert set(codes.values()) <= {0x00, 0x01, NOT_AUTHORIZED}
        server.publish("fl/train/end", b"last")
        heard = thief.heard_until(b"last")
        assert set(heard) <= MAY_HEAR
        # its own presence nobody else may say, so nobody has
        assert set(heard) == (MAY_HEAR & said)
        assert set().union(*heard.values()) == {b"server"}


def test_what_a_board_reads_reaches_it_and_its_own_echo_too(
    people: dict[str, Credentials],
) -> None:
    with intruder(people["pi-1"]) as board, intruder(people["server"]) as server:
        board.subscribe(["fl/#"])
        for topic in sorted(MAY_HEAR - {"fl/client/connected/pi-1", "fl/train/end"}):
            assert server.publish(topic, b"hello") in OK
        assert board.publish("fl/client/connected/pi-1", b"me") in OK
        server.publish("fl/train/end", b"last")
        assert set(board.heard_until(b"last")) == MAY_HEAR - {"fl/train/end"}


def test_a_viewer_says_nothing_and_reads_all_but_weights(
    people: dict[str, Credentials],
) -> None:
    with intruder(people["screen"]) as viewer, intruder(people["server"]) as server:
        for topic in every_topic():
            assert viewer.publish(topic) == NOT_AUTHORIZED
        viewer.subscribe(["#", "fl/#", "lab/#", "$SYS/#", *every_topic()])
        say_everything(people, retain=False)
        server.publish("fl/train/end", b"last")
        heard = set(viewer.heard_until(b"last"))
        assert {"fl/client/connected/pi-2", "fl/server/receive_info/5"} <= heard
        assert not [topic for topic in heard if "weights" in topic]
        assert not [topic for topic in heard if not topic.startswith("fl/")]


def test_the_coordinator_does_not_speak_for_boards_or_in_another_federation(
    people: dict[str, Credentials],
) -> None:
    with intruder(people["server"]) as server:
        said = {topic for topic in every_topic() if server.publish(topic) != NOT_AUTHORIZED}
    assert {topic for topic in said if "receive_" in topic or "metrics" in topic} == set()
    assert {topic for topic in said if "connected" in topic} == {
        "fl/client/connected/@coordinator"
    }
    assert {topic.split("/")[0] for topic in said} == {"fl"}


def test_a_last_will_is_no_way_around(people: dict[str, Credentials]) -> None:
    with intruder(people["server"]) as server:
        server.subscribe(["fl/#"])
        for topic in ("fl/train/end", "fl/client/connected/pi-2", "fl/client/connected/pi-1"):
            with intruder(people["pi-1"], will=topic) as thief:
                if thief.answers.get(timeout=10) == 0:
                    thief.vanish()
        heard: dict[str, bytes] = {}
        eventually(lambda: "fl/client/connected/pi-1" in drain(server, heard), "its own will")
        assert set(heard) == {"fl/client/connected/pi-1"}


def drain(ear: Intruder, heard: dict[str, bytes]) -> dict[str, bytes]:
    while not ear.heard.empty():
        topic, payload = ear.heard.get()
        heard[topic] = payload
    return heard


def test_taking_over_the_session_of_another_board_gives_nothing_of_it(
    people: dict[str, Credentials],
) -> None:
    session = {"client_id": "session-of-pi-2", "clean": False, "session_seconds": 60}
    with intruder(people["pi-2"], **session) as owner:  # type: ignore[arg-type]
        owner.subscribe(["fl/server/send_weights/to/5/+"])
    with intruder(people["server"]) as server:
        assert server.publish("fl/server/send_weights/to/5/0", b"waiting") in OK
        with intruder(people["pi-1"], **session) as thief:  # type: ignore[arg-type]
            thief.subscribe(["fl/train/end"])
            assert server.publish("fl/server/send_weights/to/5/0", b"live") in OK
            server.publish("fl/train/end", b"last")
            assert thief.heard_until(b"last") == {}


def test_a_packet_over_the_limit_hangs_up_on_its_sender_only(
    people: dict[str, Credentials],
) -> None:
    with intruder(people["pi-1"]) as thief, intruder(people["pi-2"]) as other:
        assert thief.answers.get(timeout=10) == 0
        thief.client.publish("fl/server/receive_weights/0", bytes(1_100_000), 0)
        assert thief.answers.get(timeout=10) == 0, "hung up on, and back again"
        assert other.publish("fl/server/receive_info/5") in OK


def test_who_is_in_no_rule_may_do_nothing() -> None:
    assert acl_text([]) == "# Written by fl-broker; changes here are lost.\n"
    text = acl_text([Account("b", "viewer", "fl"), Account("a", "board", "fl", (3,))])
    assert [line for line in text.splitlines() if line.startswith("user")] == [
        "user a",
        "user b",
    ]
