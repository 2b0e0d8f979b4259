"""The limit of row C: paho alone, publishing and answering the bytes of a round, no more.

As a program it is one board: `python -m bench.bare PORT BOARD CLIENTS SIZE`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

from paho.mqtt import client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from bench.testbed import process
from common.codec import CHUNK

START_SECONDS = 60.0
ROUND_SECONDS = 120.0


def _pieces(size: int) -> list[bytes]:
    blob = bytes(range(256)) * (size // 256 + 1)
    return [blob[at : min(at + CHUNK, size)] for at in range(0, size, CHUNK)]


def _client(name: str, port: int, topic: str) -> mqtt.Client:
    client = mqtt.Client(CallbackAPIVersion.VERSION2, name, protocol=mqtt.MQTTv5)
    client.max_inflight_messages_set(100)

    def subscribe(*_: object) -> None:
        client.subscribe(topic, qos=1)

    client.on_connect = subscribe
    client.connect("127.0.0.1", port)
    return client


def board(port: int, name: str, clients: int, size: int) -> None:
    """Answer every model with one update for each client, for ever."""
    pieces = _pieces(size)
    heard = [0]

    def answer(client: mqtt.Client, _data: object, _message: mqtt.MQTTMessage) -> None:
        heard[0] += 1
        if heard[0] % len(pieces):
            return
        for number in range(clients):
            for piece in pieces:
                client.publish(f"bare/up/{name}/{number}", piece, qos=1)

    client = _client(name, port, "bare/down/+")
    client.on_message = answer

    def ready(*_: object) -> None:
        client.publish(f"bare/up/{name}/ready", b"", qos=1)

    client.on_subscribe = ready
    client.loop_forever()


class BareRounds:
    """A server and its boards that do nothing but send; `time()` does one round."""

    def __init__(self, port: int, *, boards: int, clients: int, size: int) -> None:
        self._pieces = _pieces(size)
        self._wanted = clients * size
        self._stack = ExitStack()
        self._ready = threading.Semaphore(0)
        self._done = threading.Event()
        self._got = 0
        self._server = _client("bare-server", port, "bare/up/#")
        self._server.on_message = self._hear
        subscribed = threading.Event()
        self._server.on_subscribe = lambda *_: subscribed.set()
        self._server.loop_start()
        assert subscribed.wait(START_SECONDS), "no broker"
        for at in range(boards):
            share = clients * (at + 1) // boards - clients * at // boards
            words = ("-m", "bench.bare", str(port), f"bare-{at}", str(share), str(size))
            self._stack.enter_context(process(*words))
        for _ in range(boards):
            assert self._ready.acquire(timeout=START_SECONDS), "a bare board did not start"

    def _hear(self, _client: mqtt.Client, _data: object, message: mqtt.MQTTMessage) -> None:
        if message.topic.endswith("/ready"):
            self._ready.release()
            return
        self._got += len(message.payload)
        if self._got == self._wanted:
            self._done.set()

    def time(self) -> float:
        """Seconds of one round."""
        self._got = 0
        self._done.clear()
        started = time.perf_counter()
        for at, piece in enumerate(self._pieces):
            self._server.publish(f"bare/down/{at}", piece, qos=1, retain=True)
        assert self._done.wait(ROUND_SECONDS), "a bare round did not end"
        return time.perf_counter() - started

    def close(self) -> None:
        """End it all, and take the retained model off the broker."""
        for at in range(len(self._pieces)):
            self._server.publish(f"bare/down/{at}", b"", qos=1, retain=True).wait_for_publish(
                10
            )
        self._server.disconnect()
        self._server.loop_stop()
        self._stack.close()

    def __enter__(self) -> BareRounds:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _main(words: Iterator[str]) -> None:
    port, name, clients, size = words
    board(int(port), name, int(clients), int(size))


if __name__ == "__main__":
    _main(iter(sys.argv[1:]))
