"""Messages that nobody should send: random, mutated, lying; the same for the same seed."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from common.errors import ProtocolError
from common.rng import generator
from common.wire.messages import Chunk, ChunkHeader
from common.wire.topics import TOPICS, parse, unpack
from tests.attacks.extremes import KINDS, Hostile

LEVELS = ("0", "2", "3", "90", "99999999999", "-1", "b1", "b2", "ghost", "@coordinator", "x")
TRUNCATED = 2000  # most of what is cut off a chunk stays small, to be many


@dataclass(frozen=True)
class Shot:
    """One message to send."""

    topic: str
    payload: bytes
    qos: int
    retain: bool


def all_topics() -> list[str]:
    """All nine topics, for everybody."""
    found = []
    for row in TOPICS:
        stem, plus, _ = row.pattern.partition("+")
        found += [f"fl/{stem}{level}" for level in LEVELS] if plus else [f"fl/{stem}"]
    return [*found, "fl/server/send_weights/to/2/0", "fl/server/send_weights/to/0/0"]


def _kind(topic: str) -> str:
    return "/".join(topic.split("/")[1:3])


class Fuzzer:
    """Makes messages out of valid ones that were heard, and out of nothing."""

    def __init__(self, seed: int, heard: Sequence[tuple[str, bytes]]) -> None:
        self._rng = generator(seed, "fuzz")
        self._hostile = Hostile(seed)
        self._heard = [(topic, payload) for topic, payload in heard if payload]
        self._jsons = [
            (topic, json.loads(payload))
            for topic, payload in self._heard
            if payload[:1] == b"{"
        ]
        self._of_topic: dict[str, list[bytes]] = {}
        self._json_of_topic: dict[str, list[dict[str, Any]]] = {}
        self._chunks = [payload for _, payload in self._heard if payload[:4] == b"FBC1"]
        assert self._jsons
        assert self._chunks

    def shots(self, count: int, topics: Sequence[str]) -> Iterator[Shot]:
        """This many messages to these topics."""
        makers = (self._noise, self._mutated, self._mutated, self._odd_json, self._odd_json)
        chunkers = (self._odd_chunk, self._odd_chunk, self._mutated_chunk)
        for at in range(count):
            topic = topics[at % len(topics)]
            if "weights" in topic and self._rng.random() < 0.6:
                payload = chunkers[self._pick(len(chunkers))]()
            else:
                payload = makers[self._pick(len(makers))](topic)
            if self._is_a_credible_lie(topic, payload):
                continue
            yield Shot(topic, payload, int(self._rng.random() < 0.7), self._rng.random() < 0.05)

    def _pick(self, below: int) -> int:
        return int(self._rng.random() * below)

    def _fitting(self, topic: str) -> list[bytes]:
        """Valid messages of the same kind of topic, or all."""
        if topic not in self._of_topic:
            kind = _kind(topic)
            same = [body for where, body in self._heard if _kind(where) == kind]
            self._of_topic[topic] = same or [body for _, body in self._heard]
        return self._of_topic[topic]

    def _fitting_json(self, topic: str) -> list[dict[str, Any]]:
        if topic not in self._json_of_topic:
            kind = _kind(topic)
            same = [message for where, message in self._jsons if _kind(where) == kind]
            self._json_of_topic[topic] = same or [message for _, message in self._jsons]
        return self._json_of_topic[topic]

    def _is_a_credible_lie(self, topic: str, payload: bytes) -> bool:
        """Who has a board's account can pose as that board: nothing to find out there."""
        if topic != "fl/client/connected/b2":
            return False
        try:
            unpack("fl", topic, payload)
        except ProtocolError:
            return False
        return True

    def _noise(self, _topic: str) -> bytes:
        return self._rng.bytes(self._pick(300))

    def _mutated(self, topic: str) -> bytes:
        """A valid message, of this very topic if one was heard, with some bytes changed."""
        fitting = self._fitting(topic)
        return self._damaged(fitting[self._pick(len(fitting))][: TRUNCATED + self._pick(400)])

    def _damaged(self, body: bytes) -> bytes:
        changed = bytearray(body)
        for _ in range(self._pick(4)):
            if changed:
                changed[self._pick(len(changed))] = self._pick(256)
        if self._rng.random() < 0.3:
            del changed[self._pick(len(changed) + 1) :]
        return bytes(changed)

    def _odd_json(self, topic: str) -> bytes:
        """A message like one that was heard, with extreme values in some of its fields."""
        fitting = self._fitting_json(topic)
        message = dict(fitting[self._pick(len(fitting))])
        last = topic.rpartition("/")[2]
        if "client" in message and last.isdecimal() and self._rng.random() < 0.7:
            message["client"] = int(last)
        if "board" in message and self._rng.random() < 0.7:
            message["board"] = last
        return self._hostile.message(self._type_of(topic), message)

    def _type_of(self, topic: str) -> type[msgspec.Struct]:
        """The type of a topic's messages, or any."""
        payload = parse("fl", topic)[0].payload
        return KINDS[self._pick(len(KINDS))] if payload is Chunk else payload

    def _odd_chunk(self) -> bytes:
        """A chunk whose header lies about its size, its parts, its round or its digest."""
        body = self._chunks[self._pick(len(self._chunks))]
        (length,) = struct.unpack_from(">I", body, 4)
        header = json.loads(body[8 : 8 + length])
        if self._rng.random() < 0.5:
            header["size"] = int(2 ** (40 * self._rng.random()))
            header["parts"] = max(1, -(-header["size"] // (512 * 1024)))
        text = self._hostile.message(ChunkHeader, header)
        stated = len(text) if self._rng.random() < 0.8 else self._pick(2**32)
        kept = body[8 + length :] if self._rng.random() < 0.01 else self._rng.bytes(100)
        return b"FBC1" + struct.pack(">I", stated) + text + kept

    def _mutated_chunk(self) -> bytes:
        body = self._chunks[self._pick(len(self._chunks))]
        if self._rng.random() < 0.99:
            body = body[: self._pick(TRUNCATED)]
        return self._damaged(body)
