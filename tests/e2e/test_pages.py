"""All runs on one page, and what may be done there: in a real browser, on real runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fl_server.queue import Queue
from tests.e2e.browser import Browser, find_chromium
from tests.e2e.rig import PATIENCE, TINY, Rig, command_of, eventually, family
from tests.e2e.test_web import address_of, points, state

pytestmark = pytest.mark.slow

SHORT = TINY.replace("rounds = 2", "rounds = 6")
MIDDLE = TINY.replace("rounds = 2", "rounds = 150")
LONG = TINY.replace("rounds = 2", "rounds = 900")


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium is installed, and the page is tested in a real browser")
    found = Browser(program, tmp_path / "profile")
    found.resize(1280, 900)
    yield found
    found.close()


def text(browser: Browser, selector: str) -> str:
    """What is written in the first such element; nothing if there is none."""
    return str(
        browser.ask(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''")
    )


def click(browser: Browser, selector: str) -> None:
    browser.ask(f"document.querySelector({json.dumps(selector)}).click()")


def count(browser: Browser, selector: str) -> int:
    return int(browser.ask(f"document.querySelectorAll({json.dumps(selector)}).length"))


def press(browser: Browser, words: str) -> None:
    """Press the button of the shown run that has these words, once it is there."""
    buttons = "[...document.querySelectorAll('#controls button')]"
    found = f"{buttons}.find(button => button.textContent === '{words}')"
    eventually(lambda: browser.ask(f"Boolean({found})"), f"the button {words}")
    browser.ask(f"{found}.click()")


def mouse(browser: Browser, selector: str, *moves: tuple[str, float]) -> None:
    """Mouse events in the middle of an element, each at a share of its width."""
    box = f"document.querySelector('{selector}').getBoundingClientRect()"
    left, top, width, height = (
        float(browser.ask(f"{box}.{side}")) for side in ("left", "top", "width", "height")
    )
    for kind, share in moves:
        place = {"type": kind, "x": left + share * width, "y": top + height / 2}
        more = {} if len(moves) == 1 else {"button": "left", "buttons": 1, "clickCount": 1}
        browser.call("Input.dispatchMouseEvent", **place, **more)


@contextmanager
def other_site() -> Iterator[str]:
    """A page of somebody else."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>other</title>")

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.timeout(600)
def test_two_finished_runs_are_compared_and_another_site_can_do_nothing(
    rig: Rig, browser: Browser
) -> None:
    rig.write_experiment(SHORT)
    for seed in (1, 2):
        rig.simulate(f"experiment.seed={seed}", name=f"r{seed}")
    web = rig.start(
        "web",
        *("fl_server", "web", "127.0.0.1:0", "--runs", str(rig.runs), "--control"),
    )
    url = address_of(rig, "web", web)
    browser.open(url)
    eventually(lambda: count(browser, "#runs-table tbody tr") == 2, "the list")
    row = "#runs-table tr[data-run=r2]"
    words = [
        text(browser, f"{row} td[data-field={field}]") for field in ("state", "seed", "done")
    ]
    assert words == ["finished", "2", "6 of 6"]
    assert text(browser, f"{row} td[data-field=digest]") == rig.digest("r2")[:8]
    for name in ("r1", "r2"):
        click(browser, f"#runs-table tr[data-run={name}] input")
    assert text(browser, "#compare-go") == "Compare 2"
    click(browser, "#compare-go")

    eventually(lambda: count(browser, "#plot-legend label") == 2, "both in the legend")
    drawn = browser.ask("plot.visible().map(one => one.points)")
    for name, curve in zip(("r1", "r2"), drawn, strict=True):
        expected = [[line["round"], line["accuracy_global"]] for line in rig.metrics(name)]
        assert curve == expected
    mouse(browser, "#plot", ("mouseMoved", 0.95))
    told = text(browser, "#tip")
    assert "round 6" in told
    assert "r1 · seed 1" in told
    assert "r2 · seed 2" in told
    mouse(
        browser, "#plot", ("mousePressed", 0.5), ("mouseMoved", 0.95), ("mouseReleased", 0.95)
    )
    low, high = eventually(lambda: browser.ask("plot.range"), "zoomed in")
    assert 1 < low < high <= 6
    click(browser, "#zoom-out")
    assert browser.ask("plot.range") is None
    browser.ask("$('axis').value = 'bytes', $('axis').dispatchEvent(new Event('change'))")
    sent = [line.get("bytes_up", 0) + line.get("bytes_down", 0) for line in rig.metrics("r1")]
    assert browser.ask("plot.visible()[0].points.at(-1)[0]") == sum(sent)
    browser.ask("$('log-y').click(), $('smooth').value = 0.5")
    browser.ask("$('smooth').dispatchEvent(new Event('input'))")
    assert browser.ask("[plot.options.smooth, plot.options.logY]") == [0.5, True]
    csv = browser.ask("curvesAsCsv()").splitlines()
    assert csv[0].startswith(
        "run,algorithm,dataset,seed,rounds,time,bytes,energy,accuracy_glob"
    )
    assert len(csv) == 1 + 2 * 7
    assert browser.ask("plot.picture().toDataURL().startsWith('data:image/png;base64,iVBOR')")
    eventually(lambda: text(browser, "#table tbody td") == "tiny", "the report's table")
    assert browser.ask("[...$('table').rows[1].cells].slice(1, 3).map(c => c.textContent)") == [
        "2",
        "6",
    ]
    click(browser, "#plot-legend a")
    eventually(lambda: text(browser, "#title") == "r1", "one run")
    eventually(lambda: points(browser, "c-main") == 7, "its curve")
    assert "fedavg · fmnist-mini · dirichlet(1) · 4 clients" in text(browser, "#subtitle")
    assert text(browser, "#phase") == "finished"
    assert browser.errors == []

    body = json.dumps({"do": "submit", "text": TINY})
    token = str(browser.ask("right.token"))
    assert token in url
    place = url.partition("#")[0] + "ask"
    with other_site() as elsewhere:
        browser.open(elsewhere)
        eventually(lambda: browser.ask("document.title") == "other", "another site")
        send = (
            f"fetch({json.dumps(place)}, {{method: 'POST', body: {json.dumps(body)}, %s}})"
            ".then(r => r.type + r.status, () => 'refused').then(t => { window.told = t; }), 0"
        )
        browser.ask(send % "mode: 'no-cors'")  # sent, and its answer may not be read
        assert eventually(lambda: browser.ask("window.told"), "an answer") == "opaque0"
        browser.ask("delete window.told")
        browser.ask(send % f"headers: {{Authorization: 'Bearer {token}'}}")
        assert eventually(lambda: browser.ask("window.told"), "an answer") == "refused"
    assert Queue(rig.runs).entries() == ()
    web.terminate()
    assert web.wait(PATIENCE) == 0


def board_process(rig: Rig, serve: subprocess.Popen[bytes], board: str) -> int:
    """The daemon of a board of the lab."""
    words = f"--board\0{board}\0".encode()
    return next(pid for pid in family(serve.pid) if words in command_of(pid))


def submit(browser: Browser, experiment: str, run: str) -> None:
    shown = "#submit-open:not([hidden])"
    eventually(lambda: count(browser, shown) == 1, "the right to submit")
    click(browser, "#submit-open")
    browser.ask(
        f"$('submit-text').value = {json.dumps(experiment)}, $('submit-run').value = '{run}'"
    )
    browser.ask("$('submit-form').requestSubmit()")
    eventually(lambda: run in text(browser, "#queue-table"), "it is in the queue")


@pytest.mark.timeout(600)
def test_a_run_is_submitted_watched_paused_resumed_and_stopped(
    rig: Rig, browser: Browser
) -> None:
    serve = rig.start(
        "serve",
        *("fl_server", "serve", "--lab", "2", "--runs", str(rig.runs), "--plain"),
        *("--web", "127.0.0.1:0", "--control"),
    )
    browser.open(address_of(rig, "serve", serve))
    submit(browser, MIDDLE, "middle")
    row = "#runs-table tr[data-run=middle]"
    eventually(lambda: text(browser, f"{row} td[data-field=state]") == "live", "it runs")
    browser.ask("location.hash = '#/run/middle'")
    press(browser, "Pause")
    eventually(lambda: text(browser, "#phase") == "paused", "it pauses")
    assert "paused until somebody lets it go on" in text(browser, "#at")
    eventually(lambda: "paused" in rig.kinds("middle"), "that is journaled")
    assert "finished" not in rig.kinds("middle")
    press(browser, "Resume")
    eventually(lambda: "finished" in rig.kinds("middle"), "it goes on to the end")
    rig.write_experiment(MIDDLE)
    assert rig.digest("middle") == rig.simulate(name="sim")

    browser.ask("location.hash = '#/runs'")
    submit(browser, LONG, "long")
    eventually(lambda: "live" in text(browser, "#runs-table tr[data-run=long]"), "it runs")
    browser.ask("location.hash = '#/live'")
    eventually(lambda: state(browser, "b2") == "here", "cards of its boards")
    eventually(lambda: points(browser, "c-main") > 1, "its curves")
    click(browser, "[data-board=b1]")
    eventually(lambda: count(browser, "#d-clients tbody tr") == 2, "the clients of a board")
    eventually(lambda: count(browser, "#d-telemetry figure[data-key=load] path") == 1, "load")
    eventually(lambda: count(browser, "#d-rounds path") == 2, "how long its rounds took")
    eventually(lambda: "%" in text(browser, "#d-clients tbody"), "accuracies")
    assert text(browser, "#d-log")
    click(browser, "#d-clients tbody tr")
    eventually(lambda: count(browser, "#d-classes div") == 10, "the classes of a client")
    eventually(lambda: points(browser, "d-client-chart") > 1, "its accuracy over rounds")
    click(browser, "#d-close")

    frozen = board_process(rig, serve, "b2")
    os.kill(frozen, signal.SIGSTOP)
    eventually(lambda: state(browser, "b2") == "silent", "a frozen board is amber")
    assert "nothing heard for" in text(browser, "[data-board=b2] .now")
    eventually(lambda: "waits for" in text(browser, "#at"), "the round waits")
    assert "b2" in text(browser, "#at")
    os.kill(frozen, signal.SIGCONT)
    eventually(lambda: state(browser, "b2") == "here", "it is green again")

    press(browser, "Stop")
    entries = Queue(rig.runs).entries
    eventually(lambda: entries()[-1].state == "stopped", "it stops after the round")
    browser.ask("location.hash = '#/runs'")
    eventually(lambda: "stopped" in text(browser, "#queue-table tr[data-entry='2']"), "listed")
    click(browser, "#queue-table tr[data-entry='2'] button")
    eventually(lambda: len(entries()) == 1, "it is removed from the list")
    assert browser.errors == []
    serve.terminate()
    assert serve.wait(PATIENCE) == 130
