"""Who may do something on the page, and what happens then."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from common.disk.lock import FolderLock
from common.errors import UsageError
from common.experiment.file import parse_text
from fl_server.queue import Queue
from fl_server.run.control import read_request
from fl_server.run.store import create_run
from fl_server.web.address import PageAddress, read_page_address
from fl_server.web.answers import Shown
from fl_server.web.audience import Audience
from fl_server.web.handler import BODY_BYTES
from fl_server.web.page_server import PageServer
from fl_server.web.runs.archive import Archive

ONE = '[experiment]\nname = "one"\nrounds = 2\n'
TOKEN = "s3cret"


@dataclass
class Page:
    port: int
    runs: Path

    def ask(self, what: object, **headers: str | None) -> tuple[int, str]:
        """The answer to a request, as our own page sends it unless told otherwise."""
        host = f"127.0.0.1:{self.port}"
        usual = {"Origin": f"http://{host}", "Host": host, "Authorization": f"Bearer {TOKEN}"}
        sent = {name: value for name, value in {**usual, **headers}.items() if value}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        body = what if isinstance(what, bytes) else json.dumps(what).encode()
        connection.request("POST", "/ask", body, sent)
        answer = connection.getresponse()
        text = answer.read().decode().strip()
        connection.close()
        return answer.status, json.loads(text)["text"] if answer.status == 200 else text

    def get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("GET", path)
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        return found


def served(runs: Path, control: str) -> Iterator[Page]:
    shown = Shown(Audience(), Archive(runs), "runs", may_ask=bool(control))
    server = PageServer(PageAddress("127.0.0.1", 0, "", control), shown)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield Page(server.server_address[1], runs)
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    yield from served(tmp_path, TOKEN)


def submit(name: str) -> dict[str, str]:
    return {"do": "submit", "text": ONE, "run": name}


def test_who_has_the_token_may_submit_and_remove(page: Page) -> None:
    status, text = page.ask(submit("mine"))
    assert (status, text) == (
        200,
        "mine is number 1 of the queue; it waits until somebody starts: fl-server serve",
    )
    assert [(e.run, e.state) for e in Queue(page.runs).entries()] == [("mine", "waiting")]
    assert page.ask({"do": "remove", "id": "1"}) == (200, "number 1 is no longer in the queue")
    assert Queue(page.runs).entries() == ()


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"Authorization": None}, "open the URL with #control= that fl-server printed"),
        ({"Authorization": "Bearer other"}, "open the URL with #control="),
        ({"Authorization": "Bearer \xe9"}, "open the URL with #control="),
        ({"Origin": None}, "only the page itself may ask"),
        ({"Origin": "http://evil.example"}, "only the page itself may ask"),
        ({"Origin": "null"}, "only the page itself may ask"),
        ({"Origin": "http://127.0.0.1"}, "only the page itself may ask"),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, "only the page itself"),
        ({"Host": "10.1.2.3:80", "Origin": "http://10.1.2.3:80"}, "only the page itself"),
        ({"Host": "[", "Origin": "http://["}, "only the page itself may ask"),
    ],
)
def test_without_the_token_or_from_elsewhere_a_request_is_refused_in_one_sentence(
    page: Page, headers: dict[str, str | None], reason: str
) -> None:
    status, text = page.ask(submit("mine"), **headers)
    assert status == 403
    assert text.startswith(reason)
    assert "\n" not in text
    assert Queue(page.runs).entries() == ()


def test_a_page_without_control_only_shows(tmp_path: Path) -> None:
    for page in served(tmp_path, ""):
        for token in (TOKEN, ""):
            status, text = page.ask(submit("mine"), Authorization=f"Bearer {token}")
            assert (status, text) == (
                403,
                "this page only shows; start it with --control to do something",
            )
        assert json.loads(page.get("/site")[1])["control"] is False
    assert Queue(tmp_path).entries() == ()


def test_reading_changes_nothing_and_other_methods_are_unknown(page: Page) -> None:
    assert page.get("/ask?do=submit")[0] == 404
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=20)
    connection.request("OPTIONS", "/ask", headers={"Origin": "http://evil.example"})
    answer = connection.getresponse()
    assert answer.status == 501
    assert answer.getheader("Access-Control-Allow-Origin") is None
    connection.close()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"\xff", 400),
        (b"[" * 10_000, 400),
        (b'{"do": "format the disk"}', 400),
        (b'{"do": "pause", "run": "../x"}', 400),
        (b'{"do": "submit", "text": "rounds ="}', 400),
        (b'{"do": "remove", "id": "7"}', 400),
        (b" " * (BODY_BYTES + 1), 413),
    ],
)
def test_what_cannot_be_done_is_told_in_one_sentence(
    page: Page, body: bytes, status: int
) -> None:
    found, text = page.ask(body)
    assert found == status, text
    assert text
    assert "\n" not in text


def test_a_run_that_goes_on_is_paused_resumed_and_stopped(page: Page) -> None:
    folder = create_run(page.runs, "r", parse_text(ONE)).folder
    status, text = page.ask({"do": "pause", "run": "r"})
    assert status == 400
    assert "not going on" in text
    with FolderLock(folder, "a coordinator"):
        assert page.ask({"do": "pause", "run": "r"}) == (200, "r pauses after this round")
        assert read_request(folder) == "pause"
        assert page.ask({"do": "resume", "run": "r"}) == (200, "r goes on")
        assert read_request(folder) == "run"
        assert page.ask({"do": "stop", "run": "r"}) == (200, "r stops after this round")
        assert read_request(folder) == "stop"
    with Queue(page.runs).coordinated():  # nobody works on it any more
        status, text = page.ask({"do": "resume", "run": "r"})
    assert (status, text) == (200, "r goes on as number 1 of the queue")
    assert [entry.run for entry in Queue(page.runs).entries()] == ["r"]


def test_the_token_is_behind_the_hash_which_no_browser_sends() -> None:
    place = read_page_address("192.168.1.5:80", control=True)
    assert place.control
    assert (
        place.url(80) == f"http://192.168.1.5:80/?token={place.token}#control={place.control}"
    )
    assert place.is_own("http://192.168.1.5:80", "192.168.1.5:80")
    assert not place.is_own("http://evil.example", "evil.example")
    assert not place.may_ask(place.token)
    assert not read_page_address("8765").may_ask("")


def test_a_file_keeps_the_tokens_over_restarts_and_only_its_owner_may_read_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "tokens.json"
    first = read_page_address("10.0.0.1:80", control=True, tokens=path)
    assert path.stat().st_mode & 0o077 == 0
    assert read_page_address("10.0.0.1:80", control=True, tokens=path) == first
    assert read_page_address("10.0.0.1:80", tokens=path).control == ""
    path.chmod(0o644)
    with pytest.raises(UsageError, match="chmod 600"):
        read_page_address("80", tokens=path)
    path.chmod(0o600)
    path.write_text('{"look": "", "control": ""}')
    with pytest.raises(UsageError, match="is no file of tokens"):
        read_page_address("80", tokens=path)
