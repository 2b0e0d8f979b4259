"""paho's client as the link needs it: safe from what peers send, and without leftovers.

Only this file and `paho_link.py` import paho.
"""

from __future__ import annotations

import contextlib
import socket
from functools import cache
from typing import cast

from paho.mqtt import client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.exception import MalformedPacket
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from common.access.address import Address
from common.access.tls import client_context
from common.wire.mqtt.packets import (
    CONNACK,
    PUBACK,
    PUBLISH,
    read_puback,
    read_publish,
    without_properties,
)
from common.wire.mqtt.read_ahead import ReadAhead

RECONNECT_SECONDS = 1, 2  # first and longest pause
MOST_UNACKNOWLEDGED = 100
_UNSPECIFIED = 0x80  # the reason that gives none
_NO_PROPERTIES = Properties(PacketTypes.PUBACK)  # type: ignore[no-untyped-call]


class _Client(mqtt.Client):
    """paho's client, except that it does not parse the properties of incoming packets."""

    def _packet_handle(self) -> MQTTErrorCode:
        command, packet = self._in_packet["command"], self._in_packet["packet"]
        kind = command & 0xF0
        if kind == PUBLISH:
            return self._take_message(command, packet)
        if kind == PUBACK:
            return self._take_acknowledged(*read_puback(packet))
        if kind == CONNACK:  # made by the broker, may set the keepalive
            with contextlib.suppress(MalformedPacket):
                return super()._packet_handle()
        self._in_packet["packet"] = without_properties(command, packet)
        return super()._packet_handle()

    def _packet_queue(
        self,
        command: int,
        packet: bytes | bytearray,
        mid: int,
        qos: int,
        info: mqtt.MQTTMessageInfo | None = None,
    ) -> MQTTErrorCode:
        """paho slices what it sends, and a view is not copied by that."""
        view = cast("bytes", memoryview(packet))
        return super()._packet_queue(command, view, mid, qos, info)

    def _create_socket(self) -> mqtt.SocketLike:
        connection = super()._create_socket()
        assert isinstance(connection, socket.socket), "neither websockets nor a proxy"
        # small messages must not wait until the broker has acknowledged what went before
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return ReadAhead(connection)

    def _take_message(self, command: int, packet: bytearray) -> MQTTErrorCode:
        """No more than QoS 1: nothing else is subscribed to."""
        found = read_publish(command, packet)
        message = mqtt.MQTTMessage(found.mid, found.topic)
        message.qos = 1 if command & 0x06 else 0
        message.retain = bool(command & 0x01)
        message.payload = found.payload
        self._handle_on_message(message)
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _take_acknowledged(self, mid: int, reason: int) -> MQTTErrorCode:
        with self._out_message_mutex:
            if mid not in self._out_messages:
                return MQTTErrorCode.MQTT_ERR_SUCCESS
            return self._do_on_publish(mid, _reason(reason), _NO_PROPERTIES)

    def reconnect(self) -> MQTTErrorCode:
        """Reconnect, even if another thread publishes meanwhile: that ends paho's thread."""
        while True:
            try:
                return super().reconnect()
            except RuntimeError as error:
                if "mutated during iteration" not in str(error):
                    raise


@cache
def _reason(value: int) -> ReasonCode:
    """Why a message was or was not taken, as paho's callbacks get it."""
    try:
        return ReasonCode(PacketTypes.PUBACK, identifier=value)
    except KeyError:  # the standard has no such number
        return ReasonCode(PacketTypes.PUBACK, identifier=_UNSPECIFIED)


def make_client(address: Address, client_id: str) -> mqtt.Client:
    """A client for MQTT v5 that confirms nothing by itself; not connected yet."""
    client = _Client(
        CallbackAPIVersion.VERSION2, client_id, protocol=mqtt.MQTTv5, manual_ack=True
    )
    client.reconnect_delay_set(*RECONNECT_SECONDS)
    client.max_inflight_messages_set(MOST_UNACKNOWLEDGED)
    if address.username is not None:
        client.username_pw_set(address.username, address.password)
    if address.ca is not None:
        client.tls_set_context(client_context(address.ca))
    return client


def new_properties(packet_type: int) -> Properties:
    """No properties yet, for an outgoing packet of this type."""
    return Properties(packet_type)  # type: ignore[no-untyped-call]


def disconnect(client: mqtt.Client, *, forget_session: bool) -> None:
    """End the connection and the network thread; the broker publishes no will."""
    farewell = new_properties(PacketTypes.DISCONNECT)
    if forget_session:
        farewell.SessionExpiryInterval = 0
    client.disconnect(properties=farewell)
    client.loop_stop()
    # its two sockets stay open while a callback and the client refer to each other
    client.on_pre_connect = client.on_connect = client.on_connect_fail = None
    client.on_disconnect = client.on_message = client.on_publish = None
    client.on_subscribe = None
