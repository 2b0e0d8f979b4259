"""The bridge to browsers: who gets what, and who gets nothing."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from common.errors import UsageError
from fl_server.watch import facts
from fl_server.web.address import PageAddress, read_page_address
from fl_server.web.answers import Shown
from fl_server.web.assemble import assemble_page
from fl_server.web.audience import (
    MOST_VIEWERS,
    WAITING,
    WAITING_BYTES,
    Audience,
    Subscriber,
)
from fl_server.web.page_server import PageServer
from tests.fl_server.watch.some_facts import big_run, described, present


@contextmanager
def served(place: PageAddress, audience: Audience) -> Iterator[int]:
    server = PageServer(place, Shown(audience))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server.server_address[1]
    audience.close()
    server.shutdown()
    server.server_close()
    thread.join()


def entered(audience: Audience, address: str = "") -> Subscriber:
    viewer = audience.enter(0.0, address)
    assert viewer is not None
    return viewer


def get(
    port: int, path: str, host: str | None = None
) -> tuple[int, bytes, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    found = answer.status, answer.read(), answer.headers
    connection.close()
    return found


def test_a_page_on_this_machine_needs_no_token_and_elsewhere_has_one() -> None:
    assert read_page_address("127.0.0.1:8765") == PageAddress("127.0.0.1", 8765, "")
    assert read_page_address("9000") == PageAddress("127.0.0.1", 9000, "")
    assert read_page_address("localhost") == PageAddress("localhost", 8765, "")
    assert read_page_address("[::1]:80").token == ""
    lan = read_page_address("192.168.1.5:8765")
    assert len(lan.token) > 20
    assert lan.url(8765) == f"http://192.168.1.5:8765/?token={lan.token}"
    assert read_page_address("0.0.0.0:8765").token != lan.token


@pytest.mark.parametrize("text", ["127.0.0.1:http", "a/b.toml", "127.0.0.1:99999"])
def test_a_place_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected HOST:PORT"):
        read_page_address(text)


def test_without_the_token_nothing_is_shown() -> None:
    place = PageAddress("127.0.0.1", 0, "s3cret")
    with served(place, Audience()) as port:
        for path in ("/", "/events", "/snapshot", "/?token=other", "/nothing"):
            assert get(port, path)[0] == 403
        assert get(port, "/?token=s3cret")[0] == 200
        assert get(port, "/snapshot?token=s3cret")[0] == 200
        assert get(port, "/nothing?token=s3cret")[0] == 404


def test_another_site_cannot_read_the_page_under_its_own_name() -> None:
    with served(PageAddress("127.0.0.1", 0, ""), Audience()) as port:
        assert get(port, "/snapshot", f"localhost:{port}")[0] == 200
        assert get(port, "/snapshot", "evil.example")[0] == 403


def test_the_page_comes_in_one_piece_and_loads_nothing_from_anywhere() -> None:
    page, policy = assemble_page()
    text = page.decode()
    assert "/*page." not in text
    assert "new EventSource" in text
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text
    assert policy.startswith("default-src 'none'")
    with served(PageAddress("127.0.0.1", 0, ""), Audience()) as port:
        status, body, headers = get(port, "/")
        assert (status, body) == (200, page)
        assert headers["Content-Security-Policy"] == policy


def test_the_stream_begins_with_everything_and_goes_on_with_changes() -> None:
    audience = Audience()
    audience.observe(described(time=1.0))
    with served(PageAddress("127.0.0.1", 0, ""), audience) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/events")
        answer = connection.getresponse()
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert answer.readline() == b"retry: 1000\n"
        answer.readline()
        assert answer.readline() == b"event: snapshot\n"
        first = json.loads(answer.readline().removeprefix(b"data: "))
        assert first["set"]["run"]["title"] == "big-1"
        answer.readline()
        assert answer.readline() == b"event: seat\n"
        assert get(port, f"/read?seat={answer.readline()[6:-1].decode()}")[0] == 204
        answer.readline()
        audience.observe(present("pi-1", (0, 1), 2.0))
        audience.send_changes(2.0)
        assert answer.readline() == b"event: change\n"
        second = json.loads(answer.readline().removeprefix(b"data: "))
        assert set(second["set"]) == {"board:pi-1", "lane:pi-1"}
        answer.close()
        connection.close()


def test_a_viewer_that_takes_nothing_is_dropped_and_the_others_stay() -> None:
    audience = Audience()
    slow, quick = audience.enter(0.0), audience.enter(0.0)
    assert slow is not None
    assert quick is not None
    for at in range(WAITING + 1):
        audience.observe(present("pi-1", (0, at + 1), float(at)))
        audience.send_changes(float(at))
        quick.next(1.0)
    assert slow.closed.is_set()
    assert not quick.closed.is_set()
    assert audience.viewers == 1


def test_the_number_of_viewers_is_bounded() -> None:
    audience = Audience()
    viewers = [entered(audience) for _ in range(MOST_VIEWERS)]
    for viewer in viewers:
        audience.confirm(viewer.next_seat(1.0), 1.0)
    assert audience.enter(1.0) is None
    audience.leave(viewers[0])
    assert audience.enter(1.0) is not None


def test_a_viewer_that_does_not_read_loses_its_seat_to_a_new_one() -> None:
    audience = Audience()
    reader = entered(audience, "10.0.0.1")
    audience.confirm(reader.next_seat(1.0), 1.0)
    audience.confirm("", 1.0)  # proves nothing
    idle = [entered(audience, "10.0.0.2") for _ in range(MOST_VIEWERS - 2)]
    other = entered(audience, "10.0.0.3")
    for _ in range(2 * MOST_VIEWERS):
        entered(audience, "10.0.0.2")
    assert all(viewer.closed.is_set() for viewer in idle)
    assert not reader.closed.is_set()
    assert not other.closed.is_set()  # of the address with most of them, the oldest
    assert audience.viewers == MOST_VIEWERS
    assert reader.is_reading(2.0)
    assert not reader.is_reading(1000.0)


def test_a_viewer_with_too_many_bytes_waiting_is_dropped() -> None:
    audience = Audience()
    viewer = entered(audience)
    for _ in range(2):
        viewer.send(b"x" * (WAITING_BYTES // 2))
    assert not viewer.closed.is_set()
    viewer.send(b"x")
    assert viewer.closed.is_set()


def test_a_change_of_one_board_among_a_hundred_is_small() -> None:
    audience = Audience()
    for fact in big_run(100, rounds=3):
        audience.observe(fact)
    viewer = audience.enter(0.0)
    assert viewer is not None
    event, everything = viewer.next(1.0)
    assert event == "snapshot"
    assert len(everything) < 200_000
    audience.observe(present("pi-7", (18, 19, 20), 2000.0))
    audience.send_changes(1.0)
    event, data = viewer.next(1.0)
    assert (event, list(json.loads(data)["set"])) == ("change", ["board:pi-7"])
    assert len(data) < 1000


def test_what_has_not_changed_is_not_sent() -> None:
    audience = Audience()
    audience.observe(described())
    viewer = audience.enter(0.0)
    assert viewer is not None
    viewer.next(1.0)
    audience.send_changes(1.0)
    audience.observe(facts.Called("not shown"))
    audience.send_changes(2.0)
    audience.observe(present("pi-1", (0,), 3.0))
    audience.send_changes(3.0)
    assert b"pi-1" in viewer.next(1.0)[1]
