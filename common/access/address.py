"""Where the broker is, and whether it answers."""

from __future__ import annotations

import hashlib
import ssl
import threading
import time
from dataclasses import dataclass, field

from common.access.greeting import greet
from common.access.tls import connect, why
from common.errors import BrokerError


@dataclass(frozen=True, slots=True)
class Address:
    """Where the broker is and how to log in; with a `ca` (PEM) the connection is TLS."""

    host: str = "127.0.0.1"
    port: int = 1883
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def session_name(address: Address, client_id: str) -> str:
    """The MQTT client id: for an account, one that other accounts cannot guess.

    A client that connects with the id of another disconnects it.
    """
    if address.password is None:
        return client_id
    secret = address.password.encode()[:64]
    return f"{client_id}-{hashlib.blake2b(client_id.encode(), key=secret).hexdigest()[:16]}"


def probe(address: Address, timeout: float = 5.0, *, patience: float = 0.0) -> None:
    """Fail with the reason if the broker does not answer within the patience (seconds).

    What answers must speak MQTT and, with TLS, be the broker that the credentials are for.
    """
    end = time.monotonic() + patience
    try:
        with connect(address.host, address.port, address.ca, timeout) as connection:
            wrong = greet(connection, address.username, address.password)
    except OSError as error:
        if time.monotonic() < end:
            threading.Event().wait(0.2)
            probe(address, timeout, patience=end - time.monotonic())
            return
        raise BrokerError(_unreachable(address, error)) from error
    if wrong:
        raise BrokerError(f"{address}: {wrong}; is --broker right?")


def _unreachable(address: Address, error: OSError) -> str:
    reason = why(error, address.host)
    if isinstance(error, ssl.SSLError):
        return f"cannot trust the broker at {address}: {reason}"
    return (
        f"cannot reach the broker at {address}: {reason}; "
        "start one with 'fl-broker up' or name another with --broker HOST:PORT"
    )
