"""A Link over MQTT, made of paho's client.

Facts about paho and Mosquitto that shape it: an exception or a wait inside a callback stops the
network thread for good, so callbacks only put something on a queue (they may wait for room in
it, because its reader never waits for them); QoS 2 loses messages, so everything is QoS 1; a
refused login is retried for ever unless the client is stopped; a publish while offline is kept
in memory without bound, so nothing is published while offline: both sides publish everything
again on `Up`.
"""

from __future__ import annotations

import logging
import queue
import sys
import time
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from paho.mqtt import client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from common.access.address import Address, session_name
from common.access.tls import why
from common.wire.inbox import Inbox, Wake, idle
from common.wire.link import Arrived, Down, Happening, Posted, Refused, Session, Streamed, Up
from common.wire.mqtt.client import disconnect, make_client, new_properties
from common.wire.streams import Streams
from common.wire.topics import QOS, Packet

log = logging.getLogger(__name__)

SESSION_SECONDS = 24 * 3600
WILL_DELAY_SECONDS = 2
RECEIVE_AT_ONCE = 16  # messages that wait for us to confirm them
WAITING_BYTES = 8 * 1024 * 1024  # of messages that have arrived and were not taken yet
_OVERHEAD_BYTES = 1024  # what a message without payload costs
# A packet above the broker's limit (see `broker.config`) makes it hang up, and paho sends the
# packet again after every reconnect: nothing else would ever get through.
MAX_PAYLOAD = 1024 * 1024 - 4096
_FINAL = {134: "wrong user name or password", 135: "not authorized", 138: "banned"}
_TAKEN_OVER = 142
_TAKEN = "another process connected with the same identity"
# Mosquitto 2.0 gives no reason when a session is taken over, it just disconnects. A client that
# is disconnected so often, so soon, and finds its session as it was, has a double.
_KICKS, _KICK_SECONDS = 10, 3.0
_MOST_UNREAD = 1000


@dataclass(frozen=True, slots=True)
class _Acknowledged:
    mid: int
    failure: str


def _topic(message: mqtt.MQTTMessage) -> str:
    """Its topic; if that is not text, one that no reader knows."""
    try:
        return message.topic
    except UnicodeDecodeError:
        return ""


class PahoLink:
    """A Link over MQTT v5, with a persistent session and a last will for every connection;
    `wake` is called, in any thread, when something has happened."""

    _drive = staticmethod(mqtt.Client.loop_start)  # a thread; `bench` has a loop for many links

    def __init__(self, address: Address, keepalive: int = 10, wake: Wake = idle) -> None:
        self.address = address
        self._keepalive = keepalive
        self._session = Session("")
        self._happenings: Inbox[Happening | _Acknowledged] = Inbox(WAITING_BYTES, wake)
        self._streams = Streams()
        self._open_publishes: set[int] = set()
        self._unread: Counter[str] = Counter()
        self._connection = 0
        self._up_at = 0.0
        self._kicks = 0
        self._up = False
        self._reported_down = False
        self._client: mqtt.Client | None = None

    @property
    def name(self) -> str:
        """Where the broker is, for people."""
        return str(self.address)

    def open(self, session: Session) -> None:
        """Connect, and stay connected; `Up` follows."""
        assert self._client is None, "a link is opened once"
        self._session = session
        client = self._make_client(session_name(self.address, session.client_id))
        connect = new_properties(PacketTypes.CONNECT)
        connect.SessionExpiryInterval = SESSION_SECONDS if session.lasting else 0
        connect.ReceiveMaximum = RECEIVE_AT_ONCE
        client.connect_async(
            self.address.host,
            self.address.port,
            keepalive=self._keepalive,
            clean_start=not session.lasting,
            properties=connect,
        )
        self._client = client
        self._drive(client)

    def _make_client(self, client_id: str) -> mqtt.Client:
        client = make_client(self.address, client_id)
        client.on_pre_connect = self._before_connect
        client.on_connect = self._on_connect
        client.on_connect_fail = self._on_connect_fail
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message
        client.on_publish = self._on_publish
        client.on_subscribe = self._on_subscribe
        return client

    # callbacks, in paho's thread: they only enqueue (and subscribe, which does not wait)

    def _before_connect(self, client: mqtt.Client, _data: object) -> None:
        self._connection += 1
        if self._session.will is None:
            return
        will = self._session.will(self._connection)
        delay = new_properties(PacketTypes.WILLMESSAGE)
        delay.WillDelayInterval = WILL_DELAY_SECONDS
        client.will_set(will.topic, will.payload, QOS, will.retain, delay)

    def _on_connect(
        self,
        client: mqtt.Client,
        _data: object,
        flags: mqtt.ConnectFlags,
        code: ReasonCode,
        _p: object,
    ) -> None:
        if code.is_failure:
            final = _FINAL.get(code.value)
            self._happenings.put(Refused(final) if final else Down(str(code).lower()))
            return
        self._up_at = time.monotonic()
        self._kicks = self._kicks if flags.session_present else 0
        if wanted := self._session.subscribe:
            client.subscribe([(topic, SubscribeOptions(qos=QOS)) for topic in wanted])
        self._happenings.put(Up(self._connection))

    def _on_connect_fail(self, _client: mqtt.Client, _data: object) -> None:
        # paho calls this while it handles the error, and passes nothing of it on.
        error = sys.exc_info()[1]
        reason = why(error, self.address.host) if isinstance(error, OSError) else ""
        self._happenings.put(Down(reason or "no connection"))

    def _on_disconnect(
        self,
        _client: mqtt.Client,
        _data: object,
        flags: mqtt.DisconnectFlags,
        code: ReasonCode,
        _p: object,
    ) -> None:
        soon = time.monotonic() - self._up_at < _KICK_SECONDS
        kicked = code.is_failure and not flags.is_disconnect_packet_from_server
        self._kicks = self._kicks + 1 if soon and kicked else 0
        if code.value == _TAKEN_OVER or self._kicks >= _KICKS:
            self._happenings.put(Refused(_TAKEN))
        self._happenings.put(Down(str(code).lower()))

    def _on_message(
        self, client: mqtt.Client, _data: object, message: mqtt.MQTTMessage
    ) -> None:
        topic, payload = _topic(message), bytes(message.payload)
        if message.qos == 0:  # not ours; and the broker would not wait for us to keep up
            self._drop(topic)
            return
        arrived = Arrived(topic, payload, bool(message.retain), message.mid)
        weight = _OVERHEAD_BYTES + len(payload)
        displaced = self._happenings.put(arrived, weight, sender=topic)
        if isinstance(displaced, Arrived):
            client.ack(displaced.mark, QOS)
            self._drop(topic)

    def _drop(self, topic: str) -> None:
        self._unread[topic if len(self._unread) < _MOST_UNREAD else ""] += 1

    def _on_publish(
        self, _client: mqtt.Client, _data: object, mid: int, code: ReasonCode, _p: object
    ) -> None:
        self._happenings.put(_Acknowledged(mid, str(code).lower() if code.is_failure else ""))

    def _on_subscribe(
        self,
        _client: mqtt.Client,
        _data: object,
        _mid: int,
        codes: list[ReasonCode],
        _p: object,
    ) -> None:
        if any(code.is_failure for code in codes):
            self._happenings.put(Refused("the broker does not allow us to read our topics"))

    # the services' side, in one thread

    def publish(self, packet: Packet) -> bool:
        """Hand over one small message; False (and nothing happens) while offline."""
        if not self._up:
            return False
        if (mid := self._send_now(packet)) is not None:
            self._open_publishes.add(mid)
        return True

    def _send_now(self, packet: Packet) -> int | None:
        if len(packet.payload) > MAX_PAYLOAD:
            size = len(packet.payload)
            log.error("not sent: %d bytes on %s; at most %d", size, packet.topic, MAX_PAYLOAD)
            return None
        assert self._client is not None, "only an open link is up"
        return self._client.publish(packet.topic, packet.payload, QOS, packet.retain).mid

    def stream(self, token: Hashable, packets: Iterator[Packet]) -> None:
        """Send many large messages, a few at a time; not while offline, nor twice at once."""
        if self._up:
            self._streams.add(token, packets)
            self._pump()

    def _pump(self) -> None:
        for token in self._streams.pump(self._send_now):
            self._happenings.put(Streamed(token))

    def receive(self, timeout: float) -> Happening | None:
        """The next thing that happened, or None after `timeout` seconds."""
        end = time.monotonic() + timeout
        while True:
            try:
                happening = self._happenings.get(max(0.0, end - time.monotonic()))
            except queue.Empty:
                return None
            if (known := self._note(happening)) is not None:
                return known

    def _note(self, happening: Happening | _Acknowledged) -> Happening | None:
        match happening:
            case _Acknowledged(mid, failure):
                return self._note_acknowledged(mid, failure)
            case Up():
                self._up, self._reported_down = True, False
                self._streams.forget()
            case Down():
                news, self._up, self._reported_down = not self._reported_down, False, True
                self._streams.forget()
                return happening if news else None
            case Arrived() | Refused() | Streamed() | Posted():
                pass
        return happening

    def _note_acknowledged(self, mid: int, failure: str) -> Happening | None:
        self._open_publishes.discard(mid)
        if failure == "not authorized":
            return Refused("the broker does not allow us to publish on our topics")
        if self._streams.acknowledged(mid):
            self._pump()
        return None

    def confirm(self, arrived: Arrived) -> None:
        """Acknowledge a message to the broker: it is dealt with."""
        assert self._client is not None, "only an open link receives"
        self._client.ack(arrived.mark, QOS)

    def post(self, item: object) -> None:
        """Put something in from another thread; `receive` gives it as `Posted(item)`."""
        self._happenings.put(Posted(item))

    def unread(self) -> dict[str, int]:
        """How many messages per topic were dropped: not QoS 1, or a flood."""
        return dict(self._unread)

    def close(self, *, timeout: float = 1.0, forget_session: bool = False) -> None:
        """Wait (within the timeout) for what was handed over, then disconnect; no will."""
        end = time.monotonic() + timeout
        while self._up and self._open_publishes and time.monotonic() < end:
            self.receive(min(0.05, max(0.0, end - time.monotonic())))
        self._happenings.close()
        if self._client is not None:
            disconnect(self._client, forget_session=forget_session)

    def __enter__(self) -> PahoLink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(address: Address, session: Session) -> PahoLink:
    """A link that is on its way up."""
    link = PahoLink(address)
    link.open(session)
    return link
