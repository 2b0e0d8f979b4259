"""What a plain MQTT client sees: the broker tests' own eyes, without our Link."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from common.access.credentials import Credentials
from common.access.tls import client_context

WAIT_SECONDS = 10.0


@dataclass
class Seen:
    client: mqtt.Client
    answers: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue)
    ends: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue)
    messages: queue.SimpleQueue[bytes] = field(default_factory=queue.SimpleQueue)

    def answer(self) -> str:
        return self.answers.get(timeout=WAIT_SECONDS)

    def end(self) -> str:
        return self.ends.get(timeout=WAIT_SECONDS)

    def message(self) -> bytes:
        return self.messages.get(timeout=WAIT_SECONDS)


@contextmanager
def connected(host: str, port: int, credentials: Credentials | None = None) -> Iterator[Seen]:
    client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    client.reconnect_delay_set(0.1, 0.1)  # type: ignore[arg-type]  # takes fractions
    seen = Seen(client)

    def on_connect(
        _client: mqtt.Client,
        _data: object,
        _flags: mqtt.ConnectFlags,
        reason: ReasonCode,
        _properties: Properties | None,
    ) -> None:
        seen.answers.put(str(reason))

    def on_disconnect(
        _client: mqtt.Client,
        _data: object,
        _flags: mqtt.DisconnectFlags,
        reason: ReasonCode,
        _properties: Properties | None,
    ) -> None:
        seen.ends.put(str(reason))

    def on_message(_client: mqtt.Client, _data: object, message: mqtt.MQTTMessage) -> None:
        seen.messages.put(bytes(message.payload))

    client.on_connect, client.on_disconnect = on_connect, on_disconnect
    client.on_message = on_message
    if credentials is not None:
        client.username_pw_set(credentials.name, credentials.password)
        client.tls_set_context(client_context(credentials.ca))
    client.connect(host, port)
    client.loop_start()
    try:
        yield seen
    finally:
        client.disconnect()
        client.loop_stop()
        client.on_connect = client.on_disconnect = client.on_message = None


def login_answer(host: str, port: int, credentials: Credentials | None = None) -> str:
    with connected(host, port, credentials) as seen:
        return seen.answer()
