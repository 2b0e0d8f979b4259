"""What has happened and waits to be taken; what waits, and what one sender uses, is bounded."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")
Wake: TypeAlias = Callable[[], None]

# Of one sender, so many small messages at once, and then so many a second. A board sends a few
# per round on each of its topics; a part of a large model is never small.
BURST, PER_SECOND = 1000, 200.0
SMALL = 16 * 1024
_MOST_SENDERS = 10_000


def idle() -> None:
    """Nobody waits elsewhere."""


@dataclass(slots=True)
class _Sender:
    tokens: float
    at: float

    def refill(self, now: float) -> bool:
        """True if it may send one more now."""
        self.tokens = min(BURST, self.tokens + (now - self.at) * PER_SECOND)
        self.at = now
        return self.tokens >= 1


class Inbox(Generic[T]):
    """A queue; putting in something heavy waits until there is room for it.

    The broker is told how many messages may wait for our confirmation, but Mosquitto 2.0 lets
    that window grow with every confirmation: without a bound here, a fast network would
    fill our memory. While the network thread waits, TCP slows the sender down.

    A flood of small messages must not cost the others their turn: beyond its rate, only the
    newest message of a sender is held back until the sender may send again, and the one before
    is given back to be dropped. `on_put` is called when something can be taken.
    """

    def __init__(self, most: int, on_put: Wake = idle) -> None:
        self._most = most
        self._on_put = on_put
        self._waiting = 0
        self._closed = False
        self._room = threading.Condition()
        self._senders: dict[str, _Sender] = {}
        self._held: dict[str, tuple[T, int]] = {}
        self._queue: queue.SimpleQueue[tuple[T, int]] = queue.SimpleQueue()

    def put(self, item: T, weight: int = 0, sender: str = "") -> T | None:
        """Put something in; what weighs nothing never waits.

        Returns an item that will not be taken any more: a flood of its sender displaced it.
        """
        if weight:
            with self._room:
                self._room.wait_for(lambda: self._closed or self._waiting < self._most)
                self._waiting += weight
                if sender and weight < SMALL and not self._may_send(sender):
                    old, old_weight = self._held.pop(sender, (None, 0))
                    self._waiting -= old_weight
                    self._held[sender] = item, weight
                    return old
        self._queue.put((item, weight))
        self._on_put()
        return None

    def _may_send(self, name: str) -> bool:
        now = time.monotonic()
        if name not in self._senders:
            if len(self._senders) >= _MOST_SENDERS:  # forget those that may send a burst again
                recent = {
                    n: s for n, s in self._senders.items() if now - s.at < BURST / PER_SECOND
                }
                self._senders = recent
            self._senders[name] = _Sender(BURST, now)
        sender = self._senders[name]
        if name in self._held or not sender.refill(now):
            return False
        sender.tokens -= 1
        return True

    def get(self, timeout: float) -> T:
        """The next item; `queue.Empty` after `timeout` seconds."""
        end = time.monotonic() + timeout
        while True:
            self._release()
            left = max(0.0, end - time.monotonic())
            try:
                item, weight = self._queue.get(
                    timeout=min(left, 1 / PER_SECOND) if self._held else left
                )
            except queue.Empty:
                if time.monotonic() >= end:
                    raise
                continue
            if weight:
                with self._room:
                    self._waiting -= weight
                    self._room.notify()
            return item

    def _release(self) -> None:
        """Queue what was held back of those who may send again."""
        if not self._held:
            return
        now = time.monotonic()
        with self._room:
            for name in [name for name in self._held if self._senders[name].refill(now)]:
                self._senders[name].tokens -= 1
                self._queue.put(self._held.pop(name))

    @property
    def waiting(self) -> int:
        """The weight of what waits to be taken."""
        return self._waiting

    def close(self) -> None:
        """Nothing is taken any more, so nothing shall wait for that."""
        with self._room:
            self._closed = True
            self._room.notify_all()
