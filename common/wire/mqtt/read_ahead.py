"""A socket that reads ahead: paho asks for single bytes, each of which would be a system call.

Between a system call and the next Python lets other threads run, and waits to go on.
"""

from __future__ import annotations

import socket

AHEAD = 4096  # bytes; what is longer is read as it is asked for


class ReadAhead:
    """A connection as paho uses it. What was read ahead counts as `pending`."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._ahead = b""

    def recv(self, size: int) -> bytes:
        """Up to so many bytes."""
        if not self._ahead:
            if size >= AHEAD:
                return self._connection.recv(size)
            self._ahead = self._connection.recv(AHEAD)
        found, self._ahead = self._ahead[:size], self._ahead[size:]
        return found

    def pending(self) -> int:
        """How many bytes can be read although the system has no news of them."""
        below = getattr(self._connection, "pending", None)  # of TLS
        return len(self._ahead) + (below() if below is not None else 0)

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Send some of it; how many bytes."""
        return self._connection.send(data)

    def fileno(self) -> int:
        """The system's number of the connection."""
        return self._connection.fileno()

    def setblocking(self, flag: bool) -> None:  # noqa: FBT001 - as sockets have it
        """Whether to wait."""
        self._connection.setblocking(flag)

    def close(self) -> None:
        """End it."""
        self._connection.close()
