"""A queue of happenings, with a bound on the bytes that wait in it."""

from __future__ import annotations

import queue
import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Inbox(Generic[T]):
    """A queue; putting something heavy into it blocks until there is room.

    The broker is told how many messages may wait for our confirmation, but Mosquitto 2.0 lets
    that window grow with every confirmation: without a bound here, a fast network would
    fill our memory. While the network thread waits, TCP slows the sender down.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting = 0
        self._closed = False
        self._room = threading.Condition()
        self._queue: queue.SimpleQueue[tuple[T, int]] = queue.SimpleQueue()

    def put(self, item: T, weight: int = 0) -> None:
        """Put something in; what weighs nothing never blocks."""
        if weight:
            with self._room:
                self._room.wait_for(lambda: self._closed or self._waiting < self._most)
                self._waiting += weight
        self._queue.put((item, weight))

    def get(self, timeout: float) -> T:
        """The next item; `queue.Empty` after `timeout` seconds."""
        item, weight = self._queue.get(timeout=timeout)
        if weight:
            with self._room:
                self._waiting -= weight
                self._room.notify()
        return item

    @property
    def waiting(self) -> int:
        """The weight of what waits to be taken."""
        return self._waiting

    def close(self) -> None:
        """Nothing is taken out any more, so `put` must not block any more."""
        with self._room:
            self._closed = True
            self._room.notify_all()
