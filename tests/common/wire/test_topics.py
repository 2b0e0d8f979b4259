from __future__ import annotations

import msgspec
import pytest

from common.errors import ProtocolError, VersionError
from common.wire.chunks import cut, encode_chunk
from common.wire.json_codec import encode
from common.wire.messages import (
    COORDINATOR,
    PROTOCOL,
    Chunk,
    ClientMetrics,
    Connected,
    CurrentRound,
    Info,
    Message,
    Selected,
    TrainDetail,
    TrainEnd,
    Wire,
)
from common.wire.topics import (
    QOS,
    TOPICS,
    board_subscriptions,
    connected_topic,
    packet,
    parse,
    server_subscriptions,
    unpack,
    weights_topic,
)
from tests.some_sums import counted

TABLE = [
    (1, "client/train_detail", "server", True),
    (2, "client/connected/+", "board", True),
    (3, "server/send_weights/+", "server", True),
    (4, "server/receive_info/+", "board", False),
    (5, "server/receive_weights/+", "board", False),
    (6, "server/current_round", "server", True),
    (7, "client/selected", "server", True),
    (8, "client/test_metrics/+", "board", False),
    (9, "train/end", "server", True),
]

HERE = Connected(
    protocol=PROTOCOL,
    version="1",
    board="attic",
    instance="i",
    session=(1, 1),
    connected=True,
    settled=True,
    since=0.0,
    clients=(0, 1),
    host="pi",
)


def chunk(client: int | None, part: int) -> Chunk:
    return list(cut(bytes(600_000), run="r", round_number=1, client=client))[part]


MESSAGES: dict[str, Message] = {
    "fl/client/train_detail": TrainDetail(
        protocol=PROTOCOL, version="1", run="r", experiment=msgspec.Raw(b"{}")
    ),
    "fl/client/connected/attic": HERE,
    "fl/client/connected/@coordinator": msgspec.structs.replace(HERE, board=COORDINATOR),
    "fl/server/send_weights/1": chunk(None, 1),
    "fl/server/receive_info/7": Info(run="r", round=1, client=7, board="b", state="trained"),
    "fl/server/receive_weights/7": chunk(7, 1),
    "fl/server/current_round": CurrentRound(
        run="r", round=1, incarnation=1, safe=(3,), measured=(), accepted={3: 1}
    ),
    "fl/client/selected": Selected(run="r", round=1, clients=(1,), testers=(1, 2)),
    "fl/client/test_metrics/7": ClientMetrics(
        run="r", round=1, client=7, own={"G": counted(1, 2)}
    ),
    "fl/train/end": TrainEnd(run="r", reason="done"),
}


def payload_of(message: Message) -> bytes:
    return encode_chunk(message) if isinstance(message, Chunk) else encode(message)


def test_there_are_nine_topics_and_states_are_retained_and_happenings_are_not() -> None:
    assert [(row.number, row.pattern, row.source, row.retained) for row in TOPICS] == TABLE
    assert QOS == 1


@pytest.mark.parametrize("topic", MESSAGES)
def test_a_message_goes_to_its_topic_and_comes_back(topic: str) -> None:
    message = MESSAGES[topic]
    sent = packet("fl", message)
    assert sent.topic == topic
    row, back = unpack("fl", topic, sent.payload)
    assert (row.number, row.pattern, row.source, row.retained) in TABLE
    assert sent.retain == row.retained
    if isinstance(message, Wire):
        assert back == message
    else:
        assert isinstance(back, Chunk)
        assert (back.header, back.body) == (message.header, message.body)


@pytest.mark.parametrize("topic", MESSAGES)
@pytest.mark.parametrize("other", MESSAGES)
def test_a_message_on_any_other_topic_is_refused(topic: str, other: str) -> None:
    if topic != other:
        with pytest.raises(ProtocolError):
            unpack("fl", other, payload_of(MESSAGES[topic]))


@pytest.mark.parametrize("topic", MESSAGES)
def test_a_message_of_another_federation_is_refused(topic: str) -> None:
    for federation in ("lf", "f", "fl/fl", "fl/", ""):
        with pytest.raises(ProtocolError, match="not one of the nine topics"):
            unpack(federation, topic, payload_of(MESSAGES[topic]))


@pytest.mark.parametrize("last", ["8", "07", "+7", "7 ", "7/7"])
@pytest.mark.parametrize("topic", [topic for topic in MESSAGES if topic.endswith("/7")])
def test_a_topic_that_names_another_client_than_the_payload_is_refused(
    topic: str, last: str
) -> None:
    with pytest.raises(ProtocolError):
        unpack("fl", topic.replace("/7", f"/{last}"), payload_of(MESSAGES[topic]))


def test_a_board_cannot_speak_for_another() -> None:
    with pytest.raises(ProtocolError, match="the payload is about 'attic'"):
        unpack("fl", "fl/client/connected/cellar", encode(HERE))


def test_a_part_on_the_place_of_another_is_refused() -> None:
    with pytest.raises(ProtocolError, match="the payload is about '1'"):
        unpack("fl", "fl/server/send_weights/0", encode_chunk(chunk(None, 1)))


def test_an_update_where_the_global_model_belongs_is_refused() -> None:
    with pytest.raises(ProtocolError, match="a chunk on the wrong topic"):
        unpack("fl", "fl/server/send_weights/7", encode_chunk(chunk(7, 0)))
    with pytest.raises(ProtocolError, match="a chunk on the wrong topic"):
        unpack("fl", "fl/server/receive_weights/0", encode_chunk(chunk(None, 0)))


@pytest.mark.parametrize(
    "topic",
    [
        "",
        "/",
        "fl",
        "fl/",
        "fl/train",
        "fl/train/end/",
        "fl/train/end/x",
        "FL/train/end",
        "fl/client/connected/",
        "fl/client/connected/a/b",
        "fl/server/send_weights/to/3/0/1",
    ],
)
def test_a_topic_that_is_not_in_the_table_is_refused(topic: str) -> None:
    with pytest.raises(ProtocolError, match="not one of the nine topics"):
        parse("fl", topic)


def test_a_greeting_of_another_version_is_told_from_rubbish() -> None:
    with pytest.raises(VersionError):
        unpack("fl", "fl/client/connected/attic", b'{"protocol":1}')


def test_the_server_reads_what_boards_say() -> None:
    assert server_subscriptions("fl") == (
        "fl/client/connected/+",
        "fl/server/receive_info/+",
        "fl/server/receive_weights/+",
        "fl/client/test_metrics/+",
    )


def test_a_board_reads_what_the_server_says_and_who_else_is_there() -> None:
    assert board_subscriptions("fl", (3, 4)) == (
        "fl/client/train_detail",
        "fl/server/send_weights/+",
        "fl/server/current_round",
        "fl/client/selected",
        "fl/train/end",
        "fl/server/send_weights/to/3/+",
        "fl/server/send_weights/to/4/+",
        "fl/client/connected/+",
    )


def test_the_places_of_single_topics_are_those_of_the_table() -> None:
    assert connected_topic("fl", "attic") == packet("fl", HERE).topic
    assert weights_topic("fl", 1) == packet("fl", chunk(None, 1)).topic


def test_what_is_for_one_client_has_a_place_of_its_own_under_topic_three() -> None:
    (part,) = cut(b"mine", run="r", round_number=1, client=7, down=True)
    sent = packet("fl", part)
    assert (sent.topic, sent.retain) == ("fl/server/send_weights/to/7/0", True)
    row, back = unpack("fl", sent.topic, sent.payload)
    assert row.number == 3
    assert isinstance(back, Chunk)
    assert back.body == b"mine"
    for wrong in ("to/8/0", "to/7/1", "0", "to/7", "to/x/0"):
        with pytest.raises(ProtocolError):
            unpack("fl", f"fl/server/send_weights/{wrong}", sent.payload)
    with pytest.raises(ProtocolError):
        unpack("fl", "fl/server/receive_weights/7", sent.payload)
