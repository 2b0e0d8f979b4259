"""The page under attack: by idle connections, slow and broken requests, and silent viewers."""

from __future__ import annotations

import logging
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from fl_server.web import handler
from fl_server.web.address import PageAddress
from fl_server.web.audience import MOST_VIEWERS, Audience
from fl_server.web.connections import MOST_WAITING
from fl_server.web.handler import HEAD_BYTES
from fl_server.web.page_server import MOST_THREADS
from tests.e2e.rig import eventually
from tests.fl_server.watch.some_facts import present
from tests.fl_server.web.test_web import get, served

SERVE = """
import sys, time
from fl_server.web.audience import Audience
from fl_server.web.address import PageAddress
from fl_server.web.answers import Shown
from fl_server.web.page_server import PageServer
server = PageServer(PageAddress("127.0.0.1", 0, "s3cret"), Shown(Audience()))
print(server.server_address[1], flush=True)
server.serve_forever()
"""
OPEN = PageAddress("127.0.0.1", 0, "")


def connected(port: int, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 20, source_address=(source, 0))


def ask(port: int, request: bytes) -> bytes:
    """All that is answered to some bytes."""
    with connected(port) as connection:
        connection.sendall(request)
        answer = b""
        try:
            while part := connection.recv(65536):
                answer += part
        except ConnectionResetError:
            pass
        return answer


@contextmanager
def server_process() -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A page with a token in a process that may open few files."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (256, 256))
        yield port, process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_thousand_idle_connections_keep_nobody_out() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2048)), hard))
    with server_process() as (port, process), ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(connected(port))
        for _ in range(5):
            assert get(port, "/snapshot?token=s3cret")[0] == 200
            assert get(port, "/snapshot")[0] == 403
        files = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
        threads = len(list(Path(f"/proc/{process.pid}/task").iterdir()))
        assert files <= MOST_THREADS + 10
        assert threads <= MOST_THREADS + 2


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that waits a short while for a request."""
    monkeypatch.setattr(handler, "HEAD_SECONDS", 0.5)


def test_idle_connections_give_way_by_address() -> None:
    with served(OPEN, Audience()) as port, ExitStack() as stack:
        other = stack.enter_context(connected(port, "127.0.0.2"))
        idle = [stack.enter_context(connected(port)) for _ in range(3 * MOST_WAITING)]
        idle[0].settimeout(20)
        assert idle[0].recv(1) == b""  # the oldest has given way
        other.sendall(b"GET /snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert other.recv(12) == b"HTTP/1.0 200"  # of an address with few of them


@pytest.mark.usefixtures("hasty")
def test_idle_connections_end_by_themselves() -> None:
    before = threading.active_count()
    with served(OPEN, Audience()) as port, ExitStack() as stack:
        idle = [stack.enter_context(connected(port)) for _ in range(8)]
        for connection in idle:
            connection.settimeout(50)
            assert connection.recv(1) == b""
        eventually(lambda: threading.active_count() <= before + 1, "the threads end")


@pytest.mark.usefixtures("hasty")
def test_a_request_that_drips_is_not_waited_for() -> None:
    with served(OPEN, Audience()) as port, connected(port) as slow:
        slow.settimeout(0.1)
        slow.sendall(b"GET / HTTP/1.1\r\nHost: local")

        def ended() -> bool:
            try:
                slow.sendall(b"x")
                return slow.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        eventually(ended, "it is closed", 50)


BROKEN = [
    b"GET http://[/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: [\r\n\r\n",
    b"GET //[x HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/9999999999999999999999\r\n\r\n",
    b"GET / HTTP/1.x\r\n\r\n",
    b"GET\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    b"\x00\xff\x1b[31m \n\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999999\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n",
    b"GET / HTTP/1.1\r\n:::\r\nHost\r\n\r\n",
    b"GET /?" + b"a=b&" * 3000 + b" HTTP/1.1\r\n\r\n",
    b"GET /?token=%ff%fe&seat=\xe4 HTTP/1.1\r\nHost: \xe4\r\n\r\n",
    b"G\x1b]0;x\x07ET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
]


@pytest.mark.parametrize("token", ["", "s3cret"])
def test_a_broken_request_gets_an_error_and_no_line_in_the_log(
    token: str,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        caplog.at_level(logging.INFO),
        served(PageAddress("127.0.0.1", 0, token), Audience()) as port,
    ):
        for request in BROKEN:
            answer = ask(port, request)
            refused = answer.split(b" ")[1][:1] in b"45" or b"Error code: 4" in answer
            assert refused, request[:60]
            assert get(port, f"/snapshot?token={token}")[0] == 200
            assert (capfd.readouterr().err, caplog.records) == ("", []), request[:60]


def test_the_request_of_the_issue_is_a_bad_request() -> None:
    with served(OPEN, Audience()) as port:
        assert ask(port, BROKEN[0]).startswith(b"HTTP/1.0 400 ")


def test_a_request_without_an_end_costs_little() -> None:
    with served(OPEN, Audience()) as port:
        assert ask(port, b"GET / HTTP/1.1\r\nx: " + b"a" * (HEAD_BYTES + 5000)) == b""


def test_viewers_that_never_read_lose_their_seats_to_one_that_does() -> None:
    audience = Audience()
    with served(OPEN, audience) as port, ExitStack() as stack:
        request = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for _ in range(MOST_VIEWERS):
            stack.enter_context(connected(port)).sendall(request)
        eventually(lambda: audience.viewers == MOST_VIEWERS, "all seats are taken")
        viewer = stack.enter_context(connected(port))
        viewer.sendall(request)
        stream = viewer.makefile("rb")
        assert stream.readline() == b"HTTP/1.0 200 OK\r\n"
        while not stream.readline().startswith(b"event: seat"):
            pass
        seat = stream.readline()[6:-1].decode()
        assert get(port, f"/read?seat={seat}")[0] == 204
        for _ in range(MOST_VIEWERS + 5):  # others come, but this one reads
            stack.enter_context(connected(port)).sendall(request)
        stream.readline()
        audience.observe(present("pi-1", (0, 1), 2.0))
        audience.send_changes(2.0)
        assert stream.readline() == b"event: change\n"
        assert audience.viewers <= MOST_VIEWERS


def test_many_requests_for_everything_are_answered_with_one_and_the_same() -> None:
    audience = Audience()
    audience.observe(present("pi-1", (0, 1), 2.0))
    first = audience.snapshot(1.0)
    assert audience.snapshot(1.5) is first
    assert audience.snapshot(5.0) is not first
