"""Answers browsers: the page, its stream, and nothing else; every request costs little.

A request must be complete within HEAD_SECONDS and HEAD_BYTES. Threads and sockets are bounded
(see `connections.py`); viewers are, too (see `audience.py`).
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import io
import ipaddress
import logging
import queue
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fl_server.watch.web.audience import MOST_VIEWERS, Audience, Subscriber
from fl_server.watch.web.connections import MOST_WAITING, Connections, cut

BEAT_SECONDS = 5.0  # between two signs of life of the server, at most
STUCK_SECONDS = 20.0  # a browser that takes nothing for so long is gone
HEAD_SECONDS = 5.0  # for a request to arrive
HEAD_BYTES = 16 * 1024
MOST_THREADS = MOST_VIEWERS + MOST_WAITING + 32  # some are about to end
SLOT_SECONDS = 1.0  # to wait for one of them
BREATH_SECONDS = 0.005  # between newcomers, if each drives another out
COMPLAINT_SECONDS = 60.0  # between two warnings about requests that we failed to answer

log = logging.getLogger(__name__)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


class PageServer(ThreadingHTTPServer):
    """Answers browsers, each in a thread of its own; `token`: "" if none is needed."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, host: str, port: int, token: str, audience: Audience) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.token = token
        self.audience = audience
        self.page, self.policy = assemble_page()
        self.connections = Connections()
        self._slots = threading.Semaphore(MOST_THREADS)
        self._breath = threading.Event()
        self._complained = -COMPLAINT_SECONDS
        super().__init__((host, port), _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        """The next connection."""
        try:
            return super().get_request()
        except OSError:  # such as too many open files: it would be tried again at once
            self._breath.wait(SLOT_SECONDS)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Start a thread for a connection, if there is a place for one."""
        if not self._slots.acquire(timeout=SLOT_SECONDS):
            self.shutdown_request(request)
            return
        try:
            if self.connections.admit(request, str(client_address[0])):
                self._breath.wait(BREATH_SECONDS)
            super().process_request(request, client_address)
        except BaseException:
            self._left(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Answer one connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._left(request)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - as inherited
        """Forget a connection before its socket is closed."""
        self.connections.leave(request)
        super().shutdown_request(request)

    def _left(self, request: Any) -> None:  # noqa: ANN401 - a socket
        self.connections.leave(request)
        self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002
        """A browser that has gone is no error; others are reported, but not all of them."""
        error = sys.exc_info()[1]
        now = time.monotonic()
        if isinstance(error, OSError) or now - self._complained < COMPLAINT_SECONDS:
            log.debug("a request of %s failed: %r", client_address, error)
            return
        self._complained = now
        log.warning("a request of %s failed: %r", client_address, error)

    def server_close(self) -> None:
        """Close everything."""
        super().server_close()
        self.connections.cut_all()


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
    """GET / is the page, /events the stream, /snapshot the same once, /read the proof of it."""

    server: PageServer
    server_version = "fedbed"
    sys_version = ""

    def setup(self) -> None:
        """Read the whole request before anything of it is parsed."""
        super().setup()
        self.rfile.close()  # it would hold the socket
        self.rfile = io.BytesIO(self._read_head())
        self.connection.settimeout(STUCK_SECONDS)

    def _read_head(self) -> bytes:
        """Request line and headers; nothing if they are not complete in time or too long."""
        head, end = b"", time.monotonic() + HEAD_SECONDS
        while b"\r\n\r\n" not in head and b"\n\n" not in head:
            left = end - time.monotonic()
            if left <= 0 or len(head) > HEAD_BYTES:
                return b""
            self.connection.settimeout(left)
            try:
                part = self.connection.recv(4096)
            except OSError:
                return b""
            if not part:
                return b""
            head += part
        return head

    def do_GET(self) -> None:
        """Answer; everything but these paths is unknown."""
        try:
            path = urlsplit(self.path)
            asked = {name: found[0] for name, found in parse_qs(path.query).items()}
            allowed = self._may_look(asked.get("token", ""))
        except ValueError:  # no URL, or no host
            self._answer(400, "text/plain", b"this is no request\n")
            return
        if not allowed:
            self._answer(403, "text/plain", b"open the URL that fl-server printed\n")
        elif path.path == "/":
            self._answer(200, "text/html; charset=utf-8", self.server.page)
        elif path.path == "/snapshot":
            self._answer(200, "application/json", self.server.audience.snapshot(time.time()))
        elif path.path == "/read":
            self.server.audience.confirm(asked.get("seat", ""), time.time())
            self._answer(204, "text/plain", b"")
        elif path.path == "/events":
            with contextlib.suppress(OSError):  # the browser has gone
                self._stream()
        else:
            self._answer(404, "text/plain", b"there is nothing here\n")

    def _may_look(self, token: str) -> bool:
        if self.server.token:
            return hmac.compare_digest(token.encode(), self.server.token.encode())
        # Without a token only pages of this machine: no other site may read it by a name
        # of its own that leads here.
        return is_loopback(urlsplit(f"//{self.headers.get('Host', '')}").hostname or "")

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
        connection, address = self.connection, str(self.client_address[0])
        viewer = self.server.audience.enter(time.time(), address, lambda: cut(connection))
        if viewer is None:
            self._answer(503, "text/plain", b"too many viewers\n")
            return
        try:
            self.server.connections.leave(connection)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self._end_headers()
            self.wfile.write(b"retry: 1000\n\n")
            self._send_all(viewer)
        finally:
            self.server.audience.leave(viewer)

    def _send_all(self, viewer: Subscriber) -> None:
        while True:
            try:
                event, data = viewer.next(BEAT_SECONDS)
            except queue.Empty:
                event, data = "beat", b"%.3f" % time.time()
            if viewer.closed.is_set():
                return
            self.wfile.write(b"event: %s\ndata: %s\n\n" % (event.encode(), data))
            seat = viewer.next_seat(time.time())
            if seat:
                self.wfile.write(b"event: seat\ndata: %s\n\n" % seat.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as inherited
        """Requests are logged only for debugging."""
        log.debug(format, *args)
