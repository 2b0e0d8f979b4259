"""Where the broker is, and whether anybody answers there."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass, field

from common.errors import BrokerError


@dataclass(frozen=True, slots=True)
class Address:
    """Where the broker is and how to log in."""

    host: str = "127.0.0.1"
    port: int = 1883
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def probe(address: Address, timeout: float = 5.0, *, patience: float = 0.0) -> None:
    """Fail with the reason if nobody answers at the broker's address (within the patience)."""
    end = time.monotonic() + patience
    try:
        socket.create_connection((address.host, address.port), timeout).close()
    except OSError as error:
        if time.monotonic() < end:
            threading.Event().wait(0.2)
            probe(address, timeout, patience=end - time.monotonic())
            return
        reason = (error.strerror or str(error) or type(error).__name__).lower()
        raise BrokerError(
            f"cannot reach the broker at {address}: {reason}; "
            "start one with 'fl-broker up' or name another with --broker HOST:PORT"
        ) from error
