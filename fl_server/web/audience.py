"""The viewers of the web page, and what each of them has yet to receive; no network here.

A view is turned into sections only while there are viewers, and only differences are sent. A
viewer proves that it reads by sending back the name of its seat, which it gets in its stream;
once all seats are taken, one that does not read gives way to a new one.
"""

from __future__ import annotations

import contextlib
import queue
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable

from fl_server.watch.facts import Fact
from fl_server.watch.view import View
from fl_server.web.runs.board_history import BoardHistory
from fl_server.web.sections import Sections, change, sections, whole

MOST_VIEWERS = 64
WAITING = 40  # messages a viewer may lag behind: about ten seconds
WAITING_BYTES = 16_000_000
SEAT_SECONDS = 60.0  # between two names of a viewer's seat
READING_SECONDS = 150.0  # so long a viewer counts as one that reads
REST = 10  # times as long as it took to make the sections: then they are made again
SNAPSHOT_SECONDS = 1.0  # for so long viewers get the same snapshot


class Subscriber:
    """One viewer: a bounded queue of (event, JSON)."""

    def __init__(self, first: bytes, address: str, hang_up: Callable[[], None]) -> None:
        self.closed = threading.Event()
        self.address = address
        self._hang_up = hang_up
        self._waiting: queue.Queue[tuple[str, bytes]] = queue.Queue(WAITING)
        self._seat, self._named = "", 0.0
        self._confirmed: float | None = None
        self._waiting.put(("snapshot", first))

    def send(self, data: bytes) -> None:
        """One more message; a viewer that is too slow is dropped."""
        with self._waiting.mutex:
            size = sum(len(waiting) for _, waiting in self._waiting.queue)
        if self._waiting.full() or size > WAITING_BYTES:
            self.close()
            return
        self._waiting.put(("change", data))  # there is room: nobody else puts

    def next(self, timeout: float) -> tuple[str, bytes]:
        """The next message; queue.Empty if there is none for so long."""
        return self._waiting.get(timeout=timeout)

    def next_seat(self, now: float) -> str:
        """A new name of its seat, if it is time for one."""
        if self._seat and abs(now - self._named) < SEAT_SECONDS:
            return ""
        self._seat, self._named = secrets.token_urlsafe(9), now
        return self._seat

    def confirm(self, seat: str, now: float) -> None:
        """Whoever knows the name of the seat has read it."""
        if self._seat and seat == self._seat:
            self._confirmed = now

    def is_reading(self, now: float) -> bool:
        """Whether it has proved so lately."""
        return self._confirmed is not None and now - self._confirmed < READING_SECONDS

    def close(self) -> None:
        """End its stream, also if it is stuck."""
        self.closed.set()
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(("change", b"{}"))  # wakes it up
        self._hang_up()


class Audience:
    """The view that is shown, and its viewers; facts may be observed from any thread."""

    def __init__(self) -> None:
        self.view = View()
        self.history = BoardHistory()
        self._lock = threading.Lock()
        self._subscribers: list[Subscriber] = []
        self._sent: Sections = {}
        self._of: View | None = None
        self._made, self._cost = 0.0, 0.0
        self._whole: tuple[float, Sections, bytes] | None = None
        self._closed = False

    def observe(self, fact: Fact) -> None:
        """Take a fact."""
        with self._lock:
            self.view = self.view.after(fact)
            self.history.observe(fact, self.view.boards)

    def snapshot(self, now: float) -> bytes:
        """Everything, once."""
        with self._lock:
            self._send_changes(now)
            return self._everything(now)

    def send_changes(self, now: float) -> None:
        """Send what has changed to every viewer."""
        with self._lock:
            if self._subscribers:
                self._send_changes(now)

    def _send_changes(self, now: float) -> None:
        view = self.view
        if view is self._of or abs(now - self._made) < REST * self._cost:
            return
        begun = time.perf_counter()
        new = sections(view)
        news = change(self._sent, new, now)
        self._sent, self._of, self._made = new, view, now
        self._cost = time.perf_counter() - begun
        for subscriber in self._subscribers if news is not None else ():
            subscriber.send(news or b"")
        self._subscribers = [
            subscriber for subscriber in self._subscribers if not subscriber.closed.is_set()
        ]

    def _everything(self, now: float) -> bytes:
        known = self._whole
        if known and known[1] is self._sent and 0 <= now - known[0] < SNAPSHOT_SECONDS:
            return known[2]
        found = whole(self._sent, now)
        self._whole = (now, self._sent, found)
        return found

    def enter(
        self, now: float, address: str = "", hang_up: Callable[[], None] = lambda: None
    ) -> Subscriber | None:
        """A viewer that begins with everything; None if there are too many that read."""
        with self._lock:
            if self._closed or not self._has_seat(now):
                return None
            self._send_changes(now)
            subscriber = Subscriber(self._everything(now), address, hang_up)
            self._subscribers.append(subscriber)
            return subscriber

    def _has_seat(self, now: float) -> bool:
        """Whether there is a free seat, if need be that of a viewer that does not read.

        That is the oldest one of the address that has most of them.
        """
        if len(self._subscribers) < MOST_VIEWERS:
            return True
        idle = [one for one in self._subscribers if not one.is_reading(now)]
        if not idle:
            return False
        busiest = Counter(one.address for one in idle).most_common(1)[0][0]
        self._drop(next(one for one in idle if one.address == busiest))
        return True

    def _drop(self, subscriber: Subscriber) -> None:
        self._subscribers = [other for other in self._subscribers if other is not subscriber]
        subscriber.close()

    def confirm(self, seat: str, now: float) -> None:
        """A viewer proves that it reads."""
        with self._lock:
            for subscriber in self._subscribers:
                subscriber.confirm(seat, now)

    def leave(self, subscriber: Subscriber) -> None:
        """A viewer has gone."""
        with self._lock:
            self._drop(subscriber)

    @property
    def viewers(self) -> int:
        """How many there are."""
        return len(self._subscribers)

    def close(self) -> None:
        """End every viewer's stream."""
        with self._lock:
            self._closed = True
            for subscriber in tuple(self._subscribers):
                self._drop(subscriber)
