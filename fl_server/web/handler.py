"""Answers one request of a browser: the page, its stream, JSON, and what somebody asks for.

A request must be complete within HEAD_SECONDS and HEAD_BYTES. GET changes nothing. POST needs
the token of those who may do something, and must come from our own page (`Origin`, `Host`).
"""

from __future__ import annotations

import contextlib
import io
import logging
import queue
import time
from http.server import BaseHTTPRequestHandler
from typing import Protocol, cast
from urllib.parse import parse_qs, urlsplit

import msgspec

from common.errors import FedbedError
from common.texts import printable, shortened
from fl_server.web.address import PageAddress
from fl_server.web.answers import ANSWERS, Query, Shown
from fl_server.web.audience import Subscriber
from fl_server.web.connections import Connections, cut
from fl_server.web.control import decode, do

BEAT_SECONDS = 5.0  # between two signs of life of the server, at most
STUCK_SECONDS = 20.0  # a browser that takes nothing for so long is gone
HEAD_SECONDS = 5.0  # for a request to arrive
HEAD_BYTES = 16 * 1024
BODY_BYTES = 256 * 1024
ANSWER_LETTERS = 2_000
TEXT, JSON, HTML = "text/plain; charset=utf-8", "application/json", "text/html; charset=utf-8"

log = logging.getLogger(__name__)


class Serves(Protocol):
    """What a handler needs of its server."""

    at: PageAddress
    shown: Shown
    page: bytes
    policy: str
    connections: Connections


class Handler(BaseHTTPRequestHandler):
    """GET / is the page, /events the stream, /read the proof that somebody reads it."""

    server_version = "fedbed"
    sys_version = ""

    def setup(self) -> None:
        """Read the whole head before anything of it is parsed."""
        super().setup()
        self._serves = cast("Serves", self.server)
        self.rfile.close()  # it would hold the socket
        self.rfile = io.BytesIO(self._read_head())
        self.connection.settimeout(STUCK_SECONDS)

    def _read_head(self) -> bytes:
        """Request line and headers; nothing if they are not complete in time or too long."""
        head, end = b"", time.monotonic() + HEAD_SECONDS
        while b"\r\n\r\n" not in head and b"\n\n" not in head:
            part = self._receive(end) if len(head) <= HEAD_BYTES else b""
            if not part:
                return b""
            head += part
        return head

    def _receive(self, end: float) -> bytes:
        """What arrives next; nothing if there is no time left, or nobody sends any more."""
        left = end - time.monotonic()
        if left <= 0:
            return b""
        self.connection.settimeout(left)
        try:
            return bytes(self.connection.recv(4096))
        except OSError:
            return b""

    def do_GET(self) -> None:
        """Answer; everything but these paths is unknown."""
        try:
            path = urlsplit(self.path)
            asked: Query = parse_qs(path.query, max_num_fields=100)
            allowed = self._may_look(asked)
        except ValueError:  # no URL, or no host
            self._answer(400, TEXT, b"this is no request\n")
            return
        if not allowed:
            self._answer(403, TEXT, b"open the URL that fl-server printed\n")
        elif path.path == "/":
            self._answer(200, HTML, self._serves.page)
        elif path.path == "/read":
            self._serves.shown.audience.confirm(asked.get("seat", [""])[0], time.time())
            self._answer(204, TEXT, b"")
        elif path.path == "/events":
            with contextlib.suppress(OSError):  # the browser has gone
                self._stream()
        elif path.path in ANSWERS:
            self._answer_json(path.path, asked)
        else:
            self._answer(404, TEXT, b"there is nothing here\n")

    def _may_look(self, asked: Query) -> bool:
        token, host = asked.get("token", [""])[0], self.headers.get("Host", "")
        return self._serves.at.may_look(token, host)

    def _answer_json(self, path: str, asked: Query) -> None:
        try:
            found = ANSWERS[path](self._serves.shown, asked)
        except (FedbedError, OSError, msgspec.MsgspecError) as error:
            self._refuse(404, str(error))
        else:
            self._answer(200, JSON, found)

    def do_POST(self) -> None:
        """Do what somebody asks for, if it is somebody who may."""
        body = self._read_body()
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin", "")
        at, archive = self._serves.at, self._serves.shown.archive
        try:
            own, looks = (
                at.is_own(origin, host),
                self._may_look(parse_qs(urlsplit(self.path).query)),
            )
        except ValueError:
            own = looks = False
        if urlsplit(self.path).path != "/ask" or archive is None:
            self._refuse(404, "there is nothing here")
        elif not own:
            self._refuse(403, "only the page itself may ask, not one of another origin")
        elif not at.control:
            self._refuse(403, "this page only shows; start it with --control to do something")
        elif not looks or not at.may_ask(token):
            self._refuse(403, "open the URL with #control= that fl-server printed")
        elif body is None:
            self._refuse(413, f"expected a request of at most {BODY_BYTES:,} bytes")
        else:
            try:
                told = do(archive.runs, decode(body), self.client_address[0])
            except FedbedError as error:
                self._refuse(400, str(error))
            else:
                self._answer(200, JSON, msgspec.json.encode({"text": told}))

    def _read_body(self) -> bytes | None:
        """All of it; None if it is not complete in time, too long, or of unknown length."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or len(length) > 9 or int(length) > BODY_BYTES:
            return None
        body, end = self.rfile.read(), time.monotonic() + HEAD_SECONDS
        while len(body) < int(length):
            part = self._receive(end)
            if not part:
                return None
            body += part
        self.connection.settimeout(STUCK_SECONDS)
        return body[: int(length)]

    def _refuse(self, code: int, reason: str) -> None:
        """In one sentence."""
        text = shortened(printable(reason), ANSWER_LETTERS)
        self._answer(code, TEXT, f"{text}\n".encode(errors="replace"))

    def _answer(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", self._serves.policy)
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
        audience = self._serves.shown.audience
        viewer = audience.enter(time.time(), address, lambda: cut(connection))
        if viewer is None:
            self._answer(503, TEXT, b"too many viewers\n")
            return
        try:
            self._serves.connections.leave(connection)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self._end_headers()
            self.wfile.write(b"retry: 1000\n\n")
            self._send_all(viewer)
        finally:
            audience.leave(viewer)

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
