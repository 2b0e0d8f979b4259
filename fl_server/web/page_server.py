"""The server of the page: bounded threads and sockets (see `connections.py`).

What is answered is in `handler.py`; viewers are bounded, too (see `audience.py`).
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from http.server import ThreadingHTTPServer
from typing import Any

from fl_server.web.address import PageAddress
from fl_server.web.answers import Shown
from fl_server.web.assemble import assemble_page
from fl_server.web.audience import MOST_VIEWERS
from fl_server.web.connections import MOST_WAITING, Connections
from fl_server.web.handler import Handler

MOST_THREADS = MOST_VIEWERS + MOST_WAITING + 32  # some are about to end
SLOT_SECONDS = 1.0  # to wait for one of them
BREATH_SECONDS = 0.005  # between newcomers, if each drives another out
COMPLAINT_SECONDS = 60.0  # between two warnings about requests that we failed to answer

log = logging.getLogger(__name__)


class PageServer(ThreadingHTTPServer):
    """Answers browsers, each in a thread of its own."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, at: PageAddress, shown: Shown) -> None:
        self.address_family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
        self.at = at
        self.shown = shown
        self.page, self.policy = assemble_page()
        self.connections = Connections()
        self._slots = threading.Semaphore(MOST_THREADS)
        self._breath = threading.Event()
        self._complained = -COMPLAINT_SECONDS
        super().__init__((at.host, at.port), Handler)

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
