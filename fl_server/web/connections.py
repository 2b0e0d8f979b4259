"""The open connections of the page: a bounded number of sockets and threads.

Anybody who reaches the port can connect. A connection that has no seat yet (it has sent no
request, or has not taken its answer) gives way to the next one once there are too many: the
oldest of the address that has most of them. So idle connections keep nobody out.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter
from dataclasses import dataclass, field

MOST_WAITING = 64


def cut(connection: socket.socket) -> None:
    """End a connection; a thread that waits for it goes on at once."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


@dataclass(slots=True)
class Connections:
    """Those without a seat, the oldest first."""

    _waiting: dict[socket.socket, str] = field(default_factory=dict)  # -> its address
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def admit(self, connection: socket.socket, address: str) -> bool:
        """One more; whether another had to give way to it."""
        with self._lock:
            found = self._one_to_cut() if len(self._waiting) >= MOST_WAITING else None
            self._waiting[connection] = address
            if found is None:
                return False
            self._waiting.pop(found)
            cut(found)  # not after the lock: its number may then be that of another
            return True

    def _one_to_cut(self) -> socket.socket:
        busiest = Counter(self._waiting.values()).most_common(1)[0][0]
        return next(one for one, address in self._waiting.items() if address == busiest)

    def leave(self, connection: socket.socket) -> None:
        """It is closed, or has a seat."""
        with self._lock:
            self._waiting.pop(connection, None)

    def cut_all(self) -> None:
        """End all of them."""
        with self._lock:
            for connection in self._waiting:
                cut(connection)

    def __len__(self) -> int:
        return len(self._waiting)
