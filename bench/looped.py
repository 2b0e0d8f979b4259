"""Links without threads: one loop serves the sockets of many, each with paho's client."""

from __future__ import annotations

import contextlib
import selectors
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from common.access.address import Address
from common.wire.mqtt.read_ahead import ReadAhead
from common.wire.paho_link import PahoLink

TICK_SECONDS = 1.0


class Socket(Protocol):
    """What a selector needs."""

    def fileno(self) -> int:
        """Its descriptor."""


class Client(Protocol):
    """What paho offers to those who have a loop of their own."""

    def socket(self) -> Socket | None:
        """None while there is no connection."""

    def want_write(self) -> bool:
        """Whether packets wait until the socket takes them."""

    def loop_read(self) -> object:
        """Read what has come."""

    def loop_write(self) -> object:
        """Write what waits."""

    def loop_misc(self) -> object:
        """Keep the connection alive; give it up if the broker is silent."""

    def reconnect(self) -> object:
        """Connect, and log in."""


class LoopedLink(PahoLink):
    """A link of a loop; `serve` is called when something may have happened, `tick` now and
    then."""

    def __init__(
        self,
        address: Address,
        loop: Loop,
        serve: Callable[[], None],
        tick: Callable[[], None],
    ) -> None:
        super().__init__(address)
        self._loop = loop
        self._serve = serve
        self._tick = tick
        self._paho: Client | None = None
        self._watched: Socket | None = None
        self._events = 0

    def _drive(self, client: Client) -> None:  # type: ignore[override]  # not a thread
        self._paho = client
        self._loop.add(self)

    def ready(self, events: int) -> None:
        """The socket can be read or written."""
        assert self._paho is not None, "only an open link has a socket"
        if events & selectors.EVENT_WRITE:
            self._paho.loop_write()
        if events & selectors.EVENT_READ:
            self._paho.loop_read()
            while isinstance(there := self._paho.socket(), ReadAhead) and there.pending():
                self._paho.loop_read()  # of this the selector has no news
        self._serve()
        self._watch(self._paho)

    def tick(self) -> None:
        """Time passes."""
        assert self._paho is not None, "only an open link is in a loop"
        if self._paho.socket() is None:
            with contextlib.suppress(OSError):  # the next tick tries again
                self._paho.reconnect()
        else:
            self._paho.loop_misc()
            self._tick()
        self._serve()
        self._watch(self._paho)

    def _watch(self, client: Client) -> None:
        """Wait for what this link waits for."""
        there, known = client.socket(), self._loop.selector
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.want_write() else 0)
        if there is not self._watched:
            if self._watched is not None:  # closed, but its number is not in use again yet
                known.unregister(self._watched)
            if there is not None:
                known.register(there, events, self)
        elif there is not None and events != self._events:
            known.modify(there, events, self)
        self._watched, self._events = there, events


class Loop:
    """Serves all its links in the thread that calls `turn`; `ended` once `until` has input."""

    def __init__(self, until: Socket | None = None) -> None:
        self.ended = False
        self.selector = selectors.DefaultSelector()
        if until is not None:
            self.selector.register(until, selectors.EVENT_READ)
        self._due: deque[tuple[float, LoopedLink]] = deque()  # in the order of their times

    def add(self, link: LoopedLink) -> None:
        """Take a link; it connects in the next turn."""
        self._due.appendleft((0.0, link))

    def turn(self) -> None:
        """Wait until something happens, for a tick at most, and serve whom it concerns."""
        wait = self._due[0][0] - time.monotonic() if self._due else TICK_SECONDS
        for key, events in self.selector.select(max(0.0, wait)):
            if key.data is None:
                self.ended = True
            else:
                key.data.ready(events)
        while self._due and self._due[0][0] <= (now := time.monotonic()):
            _, link = self._due.popleft()
            self._due.append((now + TICK_SECONDS, link))
            link.tick()
