"""The web page: a small read-only bridge from the topics to browsers; standard library only.

One thread listens to the broker. Every browser has a thread and a bounded queue; one that is
too slow is dropped, comes back by itself and gets everything anew. Nothing that a browser sends
reaches anything but this file.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import ipaddress
import logging
import queue
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from urllib.parse import parse_qs, urlsplit

from common.access.address import Address
from common.errors import BrokerError, UsageError
from fl_server.watch import facts
from fl_server.watch.facts.making import stamped
from fl_server.watch.topic_reader import TopicReader
from fl_server.watch.web.audience import Audience

DEFAULT = "127.0.0.1:8765"
LOOK_SECONDS = 0.25  # between two messages to a browser, at least
BEAT_SECONDS = 5.0  # between two signs of life of the server, at most
STUCK_SECONDS = 20.0  # a browser that takes nothing for so long is gone

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
    return PageAddress(host, int(port), "" if _is_loopback(host) else secrets.token_urlsafe(16))


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


class Web:
    """The page being served: reads the topics and answers browsers until it is closed."""

    def __init__(self, at: PageAddress, address: Address, federation: str) -> None:
        self.audience = Audience()
        self._closed = threading.Event()
        try:
            self._server = PageServer(at, self.audience)
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
            except BrokerError as error:
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


class PageServer(ThreadingHTTPServer):
    """Answers browsers, each in a thread of its own."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, at: PageAddress, audience: Audience) -> None:
        self.address_family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
        self.at = at
        self.audience = audience
        self.page, self.policy = assemble_page()
        super().__init__((at.host, at.port), _Handler)


def assemble_page() -> tuple[bytes, str]:
    """The page in one piece, and the content policy that allows just that."""
    folder = resources.files("fl_server.watch.web") / "page"
    css, charts, js, page = (
        (folder / name).read_text(encoding="utf-8")
        for name in ("page.css", "charts.js", "page.js", "index.html")
    )
    js = f"{charts}\n{js}"
    page = page.replace("/*page.css*/", css).replace("/*page.js*/", js)
    style, script = _hash(css), _hash(js)
    policy = (
        f"default-src 'none'; style-src '{style}'; script-src '{script}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return page.encode(), policy


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


class _Handler(BaseHTTPRequestHandler):
    """GET / is the page, GET /events the stream, GET /snapshot the same once."""

    server: PageServer
    server_version = "fedbed"
    sys_version = ""
    timeout = STUCK_SECONDS

    def do_GET(self) -> None:
        """Answer; everything but these three paths is unknown."""
        path = urlsplit(self.path)
        if not self._may_look(path.query):
            self._answer(403, "text/plain", b"open the URL that fl-server printed\n")
        elif path.path == "/":
            self._answer(200, "text/html; charset=utf-8", self.server.page)
        elif path.path == "/snapshot":
            self._answer(200, "application/json", self.server.audience.snapshot(time.time()))
        elif path.path == "/events":
            with contextlib.suppress(OSError):  # the browser has gone
                self._stream()
        else:
            self._answer(404, "text/plain", b"there is nothing here\n")

    def _may_look(self, query: str) -> bool:
        at = self.server.at
        if at.token:
            given = parse_qs(query).get("token", [""])[0]
            return hmac.compare_digest(given.encode(), at.token.encode())
        # Without a token only pages of this machine: no other site may read it by a name
        # of its own that leads here.
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
        return _is_loopback(host)

    def _answer(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", self.server.policy)
        self._end_headers()
        with contextlib.suppress(OSError):  # the browser has gone
            self.wfile.write(body)

    def _end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()

    def _stream(self) -> None:
        viewer = self.server.audience.enter(time.time())
        if viewer is None:
            self._answer(503, "text/plain", b"too many viewers\n")
            return
        try:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self._end_headers()
            self.wfile.write(b"retry: 1000\n\n")
            while True:
                try:
                    event, data = viewer.next(BEAT_SECONDS)
                except queue.Empty:
                    event, data = "beat", b"%.3f" % time.time()
                if viewer.closed.is_set():
                    return
                self.wfile.write(b"event: %s\ndata: %s\n\n" % (event.encode(), data))
        finally:
            self.server.audience.leave(viewer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as inherited
        """Requests are logged only for debugging."""
        log.debug(format, *args)
