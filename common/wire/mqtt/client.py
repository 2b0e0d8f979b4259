"""paho's client as the link needs it: safe from what peers send, and without leftovers.

Only this file and `paho_link.py` import paho.
"""

from __future__ import annotations

import contextlib
import socket

from paho.mqtt import client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.exception import MalformedPacket
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from common.access.address import Address
from common.access.tls import client_context
from common.wire.mqtt.packets import CONNACK, without_properties

RECONNECT_SECONDS = 1, 2  # first and longest pause
MOST_UNACKNOWLEDGED = 100


class _Client(mqtt.Client):
    """paho's client, except that it does not parse the properties of incoming packets."""

    def _packet_handle(self) -> MQTTErrorCode:
        packet = self._in_packet
        if packet["command"] & 0xF0 == CONNACK:  # made by the broker, may set the keepalive
            with contextlib.suppress(MalformedPacket):
                return super()._packet_handle()
        packet["packet"] = without_properties(packet["command"], packet["packet"])
        return super()._packet_handle()

    def reconnect(self) -> MQTTErrorCode:
        """Reconnect, even if another thread publishes meanwhile: that ends paho's thread."""
        while True:
            try:
                return super().reconnect()
            except RuntimeError as error:
                if "mutated during iteration" not in str(error):
                    raise


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
    client.on_socket_open = _send_at_once
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
    client.on_subscribe = client.on_socket_open = None


def _send_at_once(_client: mqtt.Client, _data: object, connection: mqtt.SocketLike) -> None:
    """Small messages must not wait until the broker has acknowledged what went before."""
    if isinstance(connection, socket.socket):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
