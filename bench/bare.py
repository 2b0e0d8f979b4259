"""The limit of `protocol.py`: paho alone, sending the bytes of a round to and fro, no more.

With a folder it does besides what no durable round can do without: boards digest and store
each update before they send it; the server digests, stores, checks and adds up each of them,
and flushes the result. Every file is whole or absent: it is written beside and renamed, as the
one that is there must survive a crash. Still in one thread, without a message too many.

As a program it is one board: `python -m bench.bare PORT BOARD CLIENTS SIZE [FOLDER]`.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from paho.mqtt import client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from bench.testbed import process
from common.wire.chunks import CHUNK

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


def board(port: int, name: str, clients: int, size: int, folder: Path | None) -> None:
    """Answer every model with one update for each client, for ever."""
    count = len(_pieces(size))
    heard: list[bytes] = []

    def answer(client: mqtt.Client, _data: object, message: mqtt.MQTTMessage) -> None:
        heard.append(bytes(message.payload))
        if len(heard) < count:
            return
        pieces = list(heard)
        heard.clear()
        for number in range(clients):
            if folder is not None:
                pieces = _stored(folder / f"{name}-{number}", pieces)
            for piece in pieces:
                client.publish(f"bare/up/{name}/{number}", piece, qos=1)

    client = _client(name, port, "bare/down/+")
    client.on_message = answer

    def ready(*_: object) -> None:
        client.publish(f"bare/up/{name}/ready", b"", qos=1)

    client.on_subscribe = ready
    client.loop_forever()


def _stored(path: Path, pieces: list[bytes]) -> list[bytes]:
    """The pieces, after a way over the disk."""
    blob = b"".join(pieces)
    hashlib.sha256(blob).digest()
    _put(path, blob)
    kept = path.read_bytes()
    return [kept[at : at + CHUNK] for at in range(0, len(kept), CHUNK)]


def _put(path: Path, blob: bytes, *, flush: bool = False) -> None:
    """A whole file, or the one that was there."""
    beside = path.with_suffix(".new")
    with beside.open("wb", buffering=0) as file:
        file.write(blob)
        if flush:
            os.fsync(file.fileno())
    beside.replace(path)
    if flush:
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


class BareRounds:
    """A server and its boards that do nothing but send; `time()` does one round."""

    def __init__(
        self, port: int, *, boards: int, clients: int, size: int, folder: Path | None = None
    ) -> None:
        self._folder = folder
        self._size = size
        self._open: dict[str, list[bytes]] = {}
        self._sum = np.zeros(size // 4)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
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
            words = ["-m", "bench.bare", str(port), f"bare-{at}", str(share), str(size)]
            self._stack.enter_context(process(*words, *([str(folder)] if folder else [])))
        for _ in range(boards):
            assert self._ready.acquire(timeout=START_SECONDS), "a bare board did not start"

    def _hear(self, _client: mqtt.Client, _data: object, message: mqtt.MQTTMessage) -> None:
        if message.topic.endswith("/ready"):
            self._ready.release()
            return
        self._got += len(message.payload)
        if self._folder is not None:
            pieces = self._open.setdefault(message.topic, [])
            pieces.append(bytes(message.payload))
            if sum(map(len, pieces)) == self._size:
                self._keep(self._folder / message.topic.replace("/", "-"), b"".join(pieces))
                pieces.clear()
        if self._got == self._wanted:
            self._done.set()

    def _keep(self, path: Path, blob: bytes) -> None:
        hashlib.sha256(blob).digest()
        _put(path, blob)
        numbers = np.frombuffer(blob, np.float32, self._size // 4)
        np.isfinite(numbers).all()
        with np.errstate(all="ignore"):  # the bytes are no model
            self._sum += numbers

    def _flush(self, path: Path) -> None:
        with np.errstate(all="ignore"):
            blob = (self._sum / 2).astype(np.float32).tobytes()
        hashlib.sha256(blob).digest()
        _put(path, blob, flush=True)

    def time(self) -> float:
        """Seconds of one round."""
        self._got = 0
        self._done.clear()
        started = time.perf_counter()
        for at, piece in enumerate(self._pieces):
            self._server.publish(f"bare/down/{at}", piece, qos=1, retain=True)
        assert self._done.wait(ROUND_SECONDS), "a bare round did not end"
        if self._folder is not None:
            self._flush(self._folder / "checkpoint")
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
    port, name, clients, size, *folder = words
    board(int(port), name, int(clients), int(size), Path(folder[0]) if folder else None)


if __name__ == "__main__":
    _main(iter(sys.argv[1:]))
