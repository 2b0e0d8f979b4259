"""A client that says and asks for what it likes: the eyes and hands of a stolen account."""

from __future__ import annotations

import queue
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from common.access.credentials import Credentials, split_address
from common.access.tls import client_context

WAIT_SECONDS = 30.0
NOT_AUTHORIZED = 0x87
OK = (0x00, 0x10)  # the second: nobody reads it


@dataclass
class Intruder:
    """One connection of one account."""

    client: mqtt.Client
    answers: queue.SimpleQueue[int] = field(default_factory=queue.SimpleQueue)
    receipts: queue.SimpleQueue[tuple[int, int]] = field(default_factory=queue.SimpleQueue)
    heard: queue.SimpleQueue[tuple[str, bytes]] = field(default_factory=queue.SimpleQueue)
    codes: Counter[int] = field(default_factory=Counter)  # of all that was published

    def publish(
        self, topic: str, payload: bytes = b"x", *, retain: bool = False, alias: int = 0
    ) -> int:
        """Say something with QoS 1; the broker's reason code."""
        properties = _alias(alias) if alias else None
        info = self.client.publish(topic, payload, 1, retain, properties)
        return self._receipt(info.mid)

    def say_by_alias(self, payload: bytes, alias: int) -> None:
        """Say something on whatever topic the broker remembers under a number."""
        self.client.publish("", payload, 0, False, _alias(alias))

    def subscribe(self, filters: Iterable[str]) -> dict[str, int]:
        """Ask for topics, one by one; the broker's reason codes."""
        codes = {}
        for each in filters:
            _, mid = self.client.subscribe(each, options=SubscribeOptions(qos=1))
            assert mid is not None
            codes[each] = self._receipt(mid)
        return codes

    def _receipt(self, mid: int) -> int:
        while True:
            number, code = self.receipts.get(timeout=WAIT_SECONDS)
            if number == mid:
                return code

    def heard_until(self, payload: bytes) -> dict[str, set[bytes]]:
        """Topic -> payloads, of all that came before the message with this payload."""
        found: dict[str, set[bytes]] = {}
        while True:
            topic, got = self.heard.get(timeout=WAIT_SECONDS)
            if got == payload:
                return found
            found.setdefault(topic, set()).add(got)

    def vanish(self) -> None:
        """Let the connection break without a farewell; the last will speaks."""
        self.client.loop_stop()
        socket = self.client.socket()
        assert socket is not None
        socket.close()


def _alias(number: int) -> Properties:
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.TopicAlias = number
    return properties


@contextmanager
def intruder(
    credentials: Credentials,
    *,
    client_id: str = "",
    will: str = "",
    clean: bool = True,
    session_seconds: int = 0,
) -> Iterator[Intruder]:
    """Logged in with somebody's bundle."""
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id, protocol=mqtt.MQTTv5)
    client.username_pw_set(credentials.name, credentials.password)
    client.tls_set_context(client_context(credentials.ca))
    if will:
        client.will_set(will, b"the will", 1, retain=True)
    seen = Intruder(client)

    def on_connect(
        _c: mqtt.Client, _d: object, _f: mqtt.ConnectFlags, code: ReasonCode, _p: object
    ) -> None:
        seen.answers.put(code.value)

    def on_publish(_c: mqtt.Client, _d: object, mid: int, code: ReasonCode, _p: object) -> None:
        seen.receipts.put((mid, code.value))
        seen.codes[code.value] += 1

    def on_subscribe(
        _c: mqtt.Client, _d: object, mid: int, codes: list[ReasonCode], _p: object
    ) -> None:
        seen.receipts.put((mid, codes[0].value))

    def on_message(_c: mqtt.Client, _d: object, message: mqtt.MQTTMessage) -> None:
        seen.heard.put((message.topic, bytes(message.payload)))

    client.on_connect, client.on_publish = on_connect, on_publish
    client.on_subscribe, client.on_message = on_subscribe, on_message
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = session_seconds
    host, port = split_address(credentials.broker)
    client.connect(host, port, clean_start=clean, properties=properties)
    client.loop_start()
    try:
        yield seen
    finally:
        client.disconnect()
        client.loop_stop()
        client.on_connect = client.on_publish = client.on_subscribe = client.on_message = None
