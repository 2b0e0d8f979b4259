"""The web page: a small read-only bridge from the topics to browsers; standard library only.

One thread listens to the broker. Every browser has a thread and a bounded queue; one that is
too slow is dropped, comes back by itself and gets everything anew. Nothing that a browser sends
reaches anything but `page_server.py`.
"""

from __future__ import annotations

import logging
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from common.access.address import Address
from common.errors import UsageError
from fl_server.watch import facts
from fl_server.watch.facts.making import stamped
from fl_server.watch.topic_reader import TopicReader
from fl_server.watch.web.audience import Audience
from fl_server.watch.web.page_server import PageServer, is_loopback

DEFAULT = "127.0.0.1:8765"
LOOK_SECONDS = 0.25  # between two messages to a browser, at least

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PageAddress:
    """Where the page is served; other machines than this one need the token."""

    host: str
    port: int
    token: str

    def url(self, port: int) -> str:
        """The URL for a browser."""
        host = socket.gethostname() if self.host in ("0.0.0.0", "::") else self.host  # noqa: S104
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{port}/" + (f"?token={self.token}" if self.token else "")


def read_page_address(text: str) -> PageAddress:
    """HOST:PORT, PORT or HOST; a token is made for anything but this machine itself."""
    host, colon, port = text.rpartition(":")
    if not colon and not text.isdecimal():
        host, port = text, DEFAULT.rpartition(":")[2]
    host = host.strip("[]") or "127.0.0.1"
    if "/" in text or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--web is {text!r}; expected HOST:PORT, such as {DEFAULT}")
    return PageAddress(host, int(port), "" if is_loopback(host) else secrets.token_urlsafe(16))


class Web:
    """The page being served: reads the topics and answers browsers until it is closed."""

    def __init__(self, at: PageAddress, address: Address, federation: str) -> None:
        self.audience = Audience()
        self._closed = threading.Event()
        try:
            self._server = PageServer(at.host, at.port, at.token, self.audience)
        except OSError as error:
            raise UsageError(
                f"cannot serve the page at {at.host}:{at.port}: {error.strerror}; "
                "choose another place with --web HOST:PORT"
            ) from error
        self.url = at.url(self._server.server_address[1])
        self._reader = TopicReader(address, federation, self.audience.observe)
        self._threads = [
            threading.Thread(target=self._server.serve_forever, name="web", daemon=True),
            threading.Thread(target=self._listen, name="web-reader", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _listen(self) -> None:
        while not self._closed.is_set():
            begun = time.monotonic()
            try:
                self._reader.look(LOOK_SECONDS)
            except Exception as error:  # noqa: BLE001 - the run must go on
                self.audience.observe(stamped(facts.Problem(str(error)), time.time()))
                self.audience.send_changes(time.time())
                log.warning("the web page sees nothing any more: %s", error)
                return
            self.audience.send_changes(time.time())
            self._closed.wait(LOOK_SECONDS - (time.monotonic() - begun))

    def close(self) -> None:
        """Stop, and end every browser's stream."""
        self._closed.set()
        self.audience.close()
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join(5.0)
        self._reader.close()


@contextmanager
def serving(at: PageAddress, address: Address, federation: str) -> Iterator[Web]:
    """The page, for as long as the block lasts."""
    web = Web(at, address, federation)
    try:
        yield web
    finally:
        web.close()
