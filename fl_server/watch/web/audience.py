"""The viewers of the web page, and what each of them has yet to receive; no network here.

A view is turned into sections only while there are viewers, and only differences are sent.
"""

from __future__ import annotations

import queue
import threading

from fl_server.watch.facts import Fact
from fl_server.watch.view import View
from fl_server.watch.web.sections import Sections, change, sections, whole

MOST_VIEWERS = 64
WAITING = 40  # messages a viewer may lag behind: about ten seconds


class Subscriber:
    """One viewer: a bounded queue of (event, JSON)."""

    def __init__(self, first: bytes) -> None:
        self.closed = threading.Event()
        self._waiting: queue.Queue[tuple[str, bytes]] = queue.Queue(WAITING)
        self._waiting.put(("snapshot", first))

    def send(self, data: bytes) -> None:
        """One more message; a viewer whose queue is full is too slow and is dropped."""
        try:
            self._waiting.put_nowait(("change", data))
        except queue.Full:
            self.closed.set()

    def next(self, timeout: float) -> tuple[str, bytes]:
        """The next message; queue.Empty if there is none for so long."""
        return self._waiting.get(timeout=timeout)


class Audience:
    """The view that is shown, and its viewers; facts may be observed from any thread."""

    def __init__(self) -> None:
        self.view = View()
        self._lock = threading.Lock()
        self._subscribers: list[Subscriber] = []
        self._sent: Sections = {}
        self._of: View | None = None
        self._closed = False

    def observe(self, fact: Fact) -> None:
        """Take a fact."""
        with self._lock:
            self.view = self.view.after(fact)

    def snapshot(self, now: float) -> bytes:
        """Everything, once."""
        return whole(sections(self.view), now)

    def send_changes(self, now: float) -> None:
        """Send what has changed to every viewer."""
        with self._lock:
            if self._subscribers:
                self._send_changes(now)

    def _send_changes(self, now: float) -> None:
        view = self.view
        if view is self._of:
            return
        new = sections(view)
        news = change(self._sent, new, now)
        self._sent, self._of = new, view
        for subscriber in self._subscribers if news is not None else ():
            subscriber.send(news or b"")
        self._subscribers = [
            subscriber for subscriber in self._subscribers if not subscriber.closed.is_set()
        ]

    def enter(self, now: float) -> Subscriber | None:
        """A viewer that begins with everything; None if there are too many."""
        with self._lock:
            if self._closed or len(self._subscribers) >= MOST_VIEWERS:
                return None
            self._send_changes(now)
            subscriber = Subscriber(whole(self._sent, now))
            self._subscribers.append(subscriber)
            return subscriber

    def leave(self, subscriber: Subscriber) -> None:
        """A viewer has gone."""
        with self._lock:
            subscriber.closed.set()
            self._subscribers = [
                other for other in self._subscribers if other is not subscriber
            ]

    @property
    def viewers(self) -> int:
        """How many there are."""
        return len(self._subscribers)

    def close(self) -> None:
        """End every viewer's stream."""
        with self._lock:
            self._closed = True
            for subscriber in self._subscribers:
                subscriber.closed.set()
                subscriber.send(b"{}")  # wakes it up
