"""A free port on this machine, for a broker of our own."""

from __future__ import annotations

import contextlib
import secrets
import socket

from common.errors import BrokerError

FIRST_PORT, PORTS = 20_000, 12_000
_TRIES = 200


def free_port() -> int:
    """A loopback port on which nothing listens right now.

    Not one of those the system gives to outgoing connections: while a broker is down, such a
    port can be taken, even by a client that tries to reach it and meets itself.
    """
    for _ in range(_TRIES):
        port = FIRST_PORT + secrets.randbelow(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise BrokerError(f"no free port found from {FIRST_PORT} to {FIRST_PORT + PORTS - 1}")
