"""Hostile messages and connections against the real screen, page, status and coordinator."""

from __future__ import annotations

import http.client
import json
import os
import pty
import resource
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from common.config import Experiment
from common.wire.json_codec import encode
from common.wire.messages import Connected, Info, Selected, Telemetry, TrainDetail
from common.wire.topics import packet
from tests.e2e.browser import Browser, find_chromium
from tests.e2e.rig import TINY, Ear, Rig, boards, eventually, memory
from tests.e2e.test_web import address_of
from tests.hostile import HOSTILE, controls

pytestmark = pytest.mark.slow

MB = 1_000_000
RUN = "r.00c0ffee"
LONG = TINY.replace("rounds = 2", "rounds = 12")


def claim(board: str, *clients: int, **more: Any) -> Connected:
    fields = {"host": "h", "connected": True, "settled": True, "since": 1.0, **more}
    return Connected(
        protocol=2, version="0.1.0", board=board, instance=f"i-{board}", session=(1, 1),
        clients=clients, **fields,
    )  # fmt: skip


def detail() -> TrainDetail:
    experiment = msgspec.Raw(msgspec.json.encode(Experiment()))
    return TrainDetail(protocol=2, version="1", run=RUN, experiment=experiment)


def publish(ear: Ear, *messages: Any, retain: bool | None = None) -> None:
    """Without waiting for each of them, and for all at the end."""
    packets = [packet("fl", message) for message in messages]
    sent = [
        ear.client.publish(
            one.topic, one.payload, qos=1, retain=one.retain if retain is None else retain
        )
        for one in packets
    ]
    sent[-1].wait_for_publish(60)


def hostile_boards() -> list[Connected]:
    """A board for every hostile text, raw: as somebody else's program would send it."""
    return [
        claim(f"b{at}", at, host=text, problem=text, telemetry=Telemetry(why=text[:200]))
        for at, text in enumerate(HOSTILE)
    ]


def publish_raw(ear: Ear, boards_there: list[Connected]) -> None:
    for board, text in zip(boards_there, HOSTILE, strict=True):
        raw = json.loads(encode(board)) | {"host": text, "problem": text}
        ear.say(f"fl/client/connected/{board.board}", json.dumps(raw).encode(), retain=True)


def stored_flood(ear: Ear) -> None:
    """What row 12 and 13 of the attacks stored: events that are never stored, and names."""
    text = "x" * 1000
    publish(ear, detail())
    publish(
        ear,
        *(Info(run=RUN, round=1, client=at, board=f"b{at}", state="failed", problem=text)
          for at in range(3000)),
        retain=True,
    )  # fmt: skip
    publish(ear, *(claim(f"invented-{at}", at, host=text) for at in range(4000)))


def test_status_and_watch_stay_small_whatever_is_stored(rig: Rig) -> None:
    stored_flood(rig.listen())
    where = ("--broker", f"127.0.0.1:{rig.port}")
    status = rig.start("status", "fl_server", "status", *where, "--json")
    most = 0
    while status.poll() is None:  # what wait4 reports may be the memory of its parent
        most = max(most, memory(status.pid))
        with suppress(subprocess.TimeoutExpired):
            status.wait(0.02)
    assert status.returncode == 0, rig.log("status")[-2000:]
    assert 0 < most < 300 * MB
    seen = json.loads(rig.log("status"))
    assert len([key for key in seen if key.startswith("board:")]) == 2500
    assert seen["now"]["more_boards"] > 0
    assert not any("failed" in value.get("text", "") for key, value in seen.items()
                   if key.startswith("note:"))  # fmt: skip
    watch = rig.start("watch", "fl_server", "watch", *where, "--web", "127.0.0.1:0")
    place = urlsplit(address_of(rig, "watch", watch))

    def snapshot() -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", place.port or 0, timeout=60)
        connection.request("GET", "/snapshot")
        found = connection.getresponse().read()
        connection.close()
        return found

    eventually(lambda: json.loads(snapshot())["set"].get("now", {}).get("more_boards"), "all")
    assert len(snapshot()) < 12 * MB
    assert memory(watch.pid) < 300 * MB


def test_the_live_screen_shows_hostile_boards_as_plain_text(rig: Rig) -> None:
    ear = rig.listen()
    publish(ear, detail(), Selected(run=RUN, round=1, clients=(0,), testers=(0,)))
    publish_raw(ear, hostile_boards())
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "fl_server", "watch", "--broker", f"127.0.0.1:{rig.port}"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "COLUMNS": "160", "LINES": "60"},
    )
    os.close(slave)
    rig.processes.append(process)
    shown = b""

    def read(word: bytes) -> bool:
        nonlocal shown
        with suppress(OSError):  # the program has ended
            while select.select([master], [], [], 0.2)[0]:
                shown += os.read(master, 65536)
        return word in shown

    eventually(lambda: read(f" b{len(HOSTILE) - 1} ".encode()), "the last of the boards")
    for epoch in (10**6, 10**6 - 1):
        publish(ear, Info(run=RUN, round=1, client=0, board="b0", state="training",
                          epoch=epoch, epochs=10**6))  # fmt: skip
    eventually(lambda: read(b"epoch 999999/1000000"), "epochs")
    process.send_signal(signal.SIGINT)
    eventually(lambda: read(b"") and process.poll() is not None, "its end")
    os.close(master)
    assert process.wait(30) == 0
    text = shown.decode(errors="replace")
    assert "Traceback" not in text
    assert "[/x]" in text
    assert "\x1b]0;title" not in text
    assert "\x1b[2J\x1b[31mred" not in text
    assert not controls(text) & {repr("\x07"), repr("\x08"), repr("\x9b"), repr("\u202e")}


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium is installed, and the page is tested in a real browser")
    found = Browser(program, tmp_path / "profile")
    found.resize(1280, 900)
    yield found
    found.close()


def test_the_page_shows_hostile_boards_as_plain_text(rig: Rig, browser: Browser) -> None:
    ear = rig.listen()
    publish(ear, detail())
    where = ("--broker", f"127.0.0.1:{rig.port}", "--web", "127.0.0.1:0")
    watch = rig.start("watch", "fl_server", "watch", *where)
    browser.open(address_of(rig, "watch", watch))
    eventually(lambda: browser.ask("document.body?.dataset.link") == "live", "the page")
    publish_raw(ear, hostile_boards())
    cards = "document.querySelectorAll('[data-board]').length"
    eventually(lambda: browser.ask(cards) == len(HOSTILE), "a card for every board")
    script = HOSTILE.index("<script>alert(1)</script>")
    words = f"document.querySelector('[data-board=b{script}]').textContent"
    assert "<script>alert(1)</script>" in browser.ask(words)
    assert browser.ask("document.querySelectorAll('script').length") == 1
    assert browser.ask("document.querySelectorAll('#fleet img, #log img').length") == 0
    many = [claim(f"many-{at}", 100 + at) for at in range(1000)]
    publish(ear, *many)
    eventually(lambda: browser.ask(cards) == len(HOSTILE) + 1000, "a thousand more")
    assert browser.errors == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_a_coordinator_in_any_encoding_survives_any_text(
    rig: Rig, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.write_experiment(TINY)
    ear = rig.listen()
    publish_raw(ear, hostile_boards())
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    server = rig.coordinator("--tensorboard")
    for at, text in enumerate(HOSTILE):
        lie = {"run": RUN, "round": 1, "client": at, "board": f"b{at}", "state": "failed"}
        raw = json.dumps(lie | {"problem": text}).encode()
        ear.say(f"fl/server/receive_info/{at}", raw)
    for board in hostile_boards():  # their owner takes its clients elsewhere
        ear.say(f"fl/client/connected/{board.board}", b"", retain=True)
        gone = claim(board.board, connected=False)
        publish(ear, gone)
    boards(rig, ["0-1", "2-3"])
    rig.finish(server)
    assert rig.digest() == rig.simulate()
    shown = (rig.folder / "server.log").read_bytes().decode(encoding)
    assert "Traceback" not in shown
    for name in ("server.log", "runs/r/server.log"):
        lines = (rig.folder / name).read_text(encoding="latin-1").split("\n")
        assert not any(line.startswith("2026-01-01 12:00:00,000 I") for line in lines)
    assert not controls((rig.folder / "runs/r/server.log").read_text().replace("\n", ""))


@pytest.mark.timeout(600)
def test_a_run_and_its_viewers_survive_a_thousand_idle_connections(rig: Rig) -> None:
    rig.write_experiment(LONG)
    boards(rig, ["0-1"])  # the run waits for the other board until we have looked at the page
    server = rig.coordinator("--web", "127.0.0.1:0")
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (512, 512))
    port = urlsplit(address_of(rig, "server", server)).port
    assert port is not None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2048)), hard))
    with ExitStack() as stack:
        stream = stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
        stream.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        events = stream.makefile("rb")
        assert b"200" in events.readline()
        for _ in range(1000):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
        broken = stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
        broken.sendall(b"GET http://[/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert broken.recv(12) == b"HTTP/1.0 400"
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/snapshot")
        assert connection.getresponse().status == 200
        connection.close()
        rig.daemon("b2", "2-3")
        assert any(b"event: change" in line for line in events)  # the other viewer goes on
        rig.finish(server)
    assert "Traceback" not in rig.log("server")
    assert rig.digest() == rig.simulate()
