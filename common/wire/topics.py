"""PURE: the nine topics: names, directions, retained flags, and which message each carries.

    <fed>/client/train_detail                 server -> boards   retained   TrainDetail
    <fed>/client/connected/<board>            board  -> server   retained   Connected (and will)
    <fed>/server/send_weights/<part>          server -> boards   retained   Chunk of the model
    <fed>/server/send_weights/to/<id>/<part>  server -> board    retained   Chunk for one client
    <fed>/server/receive_info/<id>            board  -> server              Info
    <fed>/server/receive_weights/<id>         board  -> server              Chunk of an update
    <fed>/server/current_round                server -> boards   retained   CurrentRound
    <fed>/client/selected                     server -> boards   retained   Selected
    <fed>/client/test_metrics/<id>            board  -> server              ClientMetrics
    <fed>/train/end                           server -> boards   retained   TrainEnd

Everything is QoS 1. States are retained, events are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, cast

from common.errors import ProtocolError
from common.wire.chunks import decode_chunk, encode_chunk
from common.wire.json_codec import decode, encode
from common.wire.messages import (
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

QOS = 1
_LAST = (re.compile(r"[^/]+"), re.compile(r"(to/[0-9]+/)?[^/]+"))  # of others, of topic 3


@dataclass(frozen=True, slots=True)
class Topic:
    """One row of the table; a trailing `+` stands for a board, a client id or a part.

    Topic 3 has a second form for what goes to one client only: `to/<id>/<part>` in its place.
    """

    number: int
    name: str
    pattern: str
    source: Literal["server", "board"]
    payload: type[Wire] | type[Chunk]
    retained: bool


TRAIN_DETAIL = Topic(
    1, "train_detail", "client/train_detail", "server", TrainDetail, retained=True
)
CONNECTED = Topic(2, "connected", "client/connected/+", "board", Connected, retained=True)
SEND_WEIGHTS = Topic(3, "send_weights", "server/send_weights/+", "server", Chunk, retained=True)
RECEIVE_INFO = Topic(4, "receive_info", "server/receive_info/+", "board", Info, retained=False)
RECEIVE_WEIGHTS = Topic(
    5, "receive_weights", "server/receive_weights/+", "board", Chunk, retained=False
)
CURRENT_ROUND = Topic(
    6, "current_round", "server/current_round", "server", CurrentRound, retained=True
)
SELECTED = Topic(7, "selected", "client/selected", "server", Selected, retained=True)
TEST_METRICS = Topic(
    8, "test_metrics", "client/test_metrics/+", "board", ClientMetrics, retained=False
)
TRAIN_END = Topic(9, "train_end", "train/end", "server", TrainEnd, retained=True)

TOPICS = (
    TRAIN_DETAIL,
    CONNECTED,
    SEND_WEIGHTS,
    RECEIVE_INFO,
    RECEIVE_WEIGHTS,
    CURRENT_ROUND,
    SELECTED,
    TEST_METRICS,
    TRAIN_END,
)


@dataclass(frozen=True, slots=True)
class Packet:
    """A message ready for the broker."""

    topic: str
    payload: bytes
    retain: bool


def packet(federation: str, message: Message) -> Packet:
    """A message on its topic, as bytes."""
    row = row_of(message)
    place = row.pattern.removesuffix("+") + _last_level(message)
    payload = encode_chunk(message) if isinstance(message, Chunk) else encode(message)
    return Packet(f"{federation}/{place}", payload, row.retained)


def row_of(message: Message) -> Topic:
    """The row of the table a message belongs to."""
    if isinstance(message, Chunk):
        return SEND_WEIGHTS if message.header.down else RECEIVE_WEIGHTS
    return next(row for row in TOPICS if row.payload is type(message))


def _last_level(message: Message) -> str:
    match message:
        case Connected():
            return message.board
        case Info() | ClientMetrics():
            return str(message.client)
        case Chunk(header=header):
            if not header.down:
                return str(header.client)
            to = "" if header.client is None else f"to/{header.client}/"
            return f"{to}{header.part}"
        case _:
            return ""


def connected_topic(federation: str, board: str) -> str:
    """The topic with the presence of a board (or the coordinator)."""
    return f"{federation}/client/connected/{board}"


def weights_topic(federation: str, part: int) -> str:
    """The topic with one part of the global model."""
    return f"{federation}/server/send_weights/{part}"


def server_subscriptions(federation: str) -> tuple[str, ...]:
    """What the coordinator reads."""
    return tuple(f"{federation}/{row.pattern}" for row in TOPICS if row.source == "board")


def board_subscriptions(federation: str, clients: Iterable[int]) -> tuple[str, ...]:
    """What a board reads: the coordinator's topics, what is for its clients, and presence."""
    common = [f"{federation}/{row.pattern}" for row in TOPICS if row.source == "server"]
    private = [f"{federation}/server/send_weights/to/{client}/+" for client in clients]
    return (*common, *private, f"{federation}/{CONNECTED.pattern}")


def unpack(federation: str, topic: str, payload: bytes) -> tuple[Topic, Message]:
    """The message in a packet; ProtocolError if topic, payload and ids do not agree."""
    row, last = parse(federation, topic)
    message = decode_chunk(payload) if row.payload is Chunk else _decode(payload, row)
    if isinstance(message, Chunk) and (row is SEND_WEIGHTS) != message.header.down:
        raise ProtocolError("a chunk on the wrong topic")
    if _last_level(message) != last:
        raise ProtocolError(f"the payload is about {_last_level(message)[:40]!r}")
    return row, message


def _decode(payload: bytes, row: Topic) -> Message:
    return cast(
        "Message", decode(payload, cast("type[Wire]", row.payload))
    )  # the table's types


def parse(federation: str, topic: str) -> tuple[Topic, str]:
    """The row of a topic and what its `+` stands for."""
    for row in TOPICS:
        prefix = f"{federation}/{row.pattern.removesuffix('+')}"
        if not row.pattern.endswith("+"):
            if topic == prefix:
                return row, ""
        elif topic.startswith(prefix) and _LAST[row is SEND_WEIGHTS].fullmatch(
            last := topic[len(prefix) :]
        ):
            return row, last
    raise ProtocolError("not one of the nine topics")
