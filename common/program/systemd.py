"""Reports the state of a service to systemd (Type=notify, WatchdogSec), where it asks for it.

The protocol is one datagram of KEY=VALUE lines to the socket named by NOTIFY_SOCKET.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping

log = logging.getLogger(__name__)


class Notifier:
    """Reports to systemd; `beat` belongs in the loop that must not hang."""

    def __init__(self, path: str = "", beat_seconds: float = 0.0) -> None:
        self._path = "\0" + path[1:] if path.startswith("@") else path
        self._beat_seconds = beat_seconds
        self._beaten: float | None = None
        self._status = ""

    def ready(self, status: str) -> None:
        """The service is up."""
        self._status = status
        self._send(f"READY=1\nSTATUS={status}")

    def status(self, status: str) -> None:
        """What `systemctl status` shows; sent only when it changes."""
        if status != self._status:
            self._status = status
            self._send(f"STATUS={status}")

    def beat(self, now: float) -> None:
        """The loop is alive; sent twice per watchdog interval."""
        if self._beat_seconds <= 0:
            return
        if self._beaten is None or now - self._beaten >= self._beat_seconds:
            self._beaten = now
            self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """The service has begun to stop."""
        self._send("STOPPING=1")

    def _send(self, text: str) -> None:
        if not self._path:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
                channel.sendto(text.encode(), self._path)
        except (
            OSError
        ) as error:  # a supervisor that cannot be reached must not stop its service
            log.warning("cannot notify systemd of %r: %s", text.partition("\n")[0], error)


def notifier_from(environment: Mapping[str, str] | None = None) -> Notifier:
    """The notifier that systemd's variables ask for; without them one that does nothing."""
    known = os.environ if environment is None else environment
    meant = known.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    microseconds = known.get("WATCHDOG_USEC", "")
    interval = int(microseconds) / 1e6 if meant and microseconds.isdecimal() else 0.0
    return Notifier(known.get("NOTIFY_SOCKET", ""), interval / 2)
