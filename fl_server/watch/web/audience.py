"""Who looks at the web page, and what each has yet to hear; no network here.

A view is turned into sections only when somebody looks, and only the differences are passed on.
"""

from __future__ import annotations

import queue
import threading

from fl_server.watch.listener import Fact
from fl_server.watch.view import View
from fl_server.watch.web.sections import Sections, change, sections, whole

MOST_VIEWERS = 64
WAITING = 40  # messages a viewer may lag behind: about ten seconds


class Subscriber:
    """One viewer's place: a bounded queue of (event, JSON)."""

    def __init__(self, first: bytes) -> None:
        self.closed = threading.Event()
        self._waiting: queue.Queue[tuple[str, bytes]] = queue.Queue(WAITING)
        self._waiting.put(("snapshot", first))

    def hear(self, data: bytes) -> None:
        """One more message; whoever has not taken so many is too slow and has to go."""
        try:
            self._waiting.put_nowait(("change", data))
        except queue.Full:
            self.closed.set()

    def next(self, timeout: float) -> tuple[str, bytes]:
        """The next message; queue.Empty if there is none for so long."""
        return self._waiting.get(timeout=timeout)


class Audience:
    """The view that everybody sees, and the seats of those who look at it."""

    def __init__(self) -> None:
        self.view = View()
        self._lock = threading.Lock()
        self._seats: list[Subscriber] = []
        self._said: Sections = {}
        self._of: View | None = None
        self._closed = False

    def observe(self, fact: Fact) -> None:
        """Take a fact; only one thread may."""
        self.view = self.view.after(fact)

    def snapshot(self, now: float) -> bytes:
        """Everything, once."""
        return whole(sections(self.view), now)

    def spread(self, now: float) -> None:
        """Tell everybody what has changed."""
        with self._lock:
            if self._seats:
                self._spread(now)

    def _spread(self, now: float) -> None:
        view = self.view
        if view is self._of:
            return
        new = sections(view)
        news = change(self._said, new, now)
        self._said, self._of = new, view
        for seat in self._seats if news is not None else ():
            seat.hear(news or b"")
        self._seats = [seat for seat in self._seats if not seat.closed.is_set()]

    def enter(self, now: float) -> Subscriber | None:
        """A seat that begins with everything; None if there is no room."""
        with self._lock:
            if self._closed or len(self._seats) >= MOST_VIEWERS:
                return None
            self._spread(now)
            seat = Subscriber(whole(self._said, now))
            self._seats.append(seat)
            return seat

    def leave(self, seat: Subscriber) -> None:
        """A viewer has gone."""
        with self._lock:
            seat.closed.set()
            self._seats = [other for other in self._seats if other is not seat]

    @property
    def viewers(self) -> int:
        """How many look."""
        return len(self._seats)

    def close(self) -> None:
        """Send everybody away."""
        with self._lock:
            self._closed = True
            for seat in self._seats:
                seat.closed.set()
                seat.hear(b"{}")  # wakes it up
