"""The web page in a real browser, on real runs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.browser import Browser, find_chromium
from tests.e2e.rig import PATIENCE, TINY, Rig, boards, eventually

pytestmark = pytest.mark.slow

LONG = TINY.replace("rounds = 2", "rounds = 500")


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium is installed, and the page is tested in a real browser")
    found = Browser(program, tmp_path / "profile")
    found.resize(1280, 900)
    yield found
    found.close()


def address_of(rig: Rig, name: str, process: subprocess.Popen[bytes]) -> str:
    """The page's URL, as the command says it."""

    def said() -> str:
        assert process.poll() is None, rig.log(name)
        found = re.search(r"the page is at (http://\S+)", rig.log(name))
        return found[1] if found else ""

    return str(eventually(said, "the page is served"))


def state(browser: Browser, board: str) -> str:
    card = f"document.querySelector('[data-board={board}]')"
    return str(browser.ask(f"{card} ? {card}.dataset.state : ''"))


def edge(browser: Browser, board: str) -> str:
    """The colour of a card's edge, by its name in the style sheet."""
    return str(browser.ask(
        "(() => { const probe = document.createElement('i'); document.body.append(probe);"
        f" const card = document.querySelector('[data-board={board}]');"
        " const edge = getComputedStyle(card).borderLeftColor;"
        " const found = ['red', 'green', 'orange'].find(name => {"
        " probe.style.color = `var(--${name})`;"
        " return getComputedStyle(probe).color === edge; });"
        " probe.remove(); return found || edge; })()"
    ))  # fmt: skip


def points(browser: Browser, chart: str) -> int:
    """How many points the longest curve of a chart has."""
    paths = f"[...document.querySelectorAll('#{chart} path')]"
    lengths = f"{paths}.map(path => path.getAttribute('d').split('L').length)"
    return int(browser.ask(f"Math.max(0, ...{lengths})"))


@pytest.mark.timeout(600)
def test_a_killed_board_turns_red_and_green_again_while_the_curves_grow(
    rig: Rig, browser: Browser
) -> None:
    rig.write_experiment(LONG)
    spread = boards(rig, ["0", "1", "2-3"])
    where = ("--broker", f"127.0.0.1:{rig.port}", "--web", "127.0.0.1:0")
    watch = rig.start("watch", "fl_server", "watch", *where)
    browser.open(address_of(rig, "watch", watch))
    eventually(lambda: state(browser, "b3") == "here", "cards of the boards that wait")
    assert browser.ask("document.getElementById('title').textContent") == "No run yet"
    rig.coordinator()
    eventually(lambda: points(browser, "c-main") > 1, "a curve")
    title = "document.getElementById('title').textContent"
    eventually(lambda: browser.ask(title) == "r", "its name")
    assert browser.ask("document.querySelectorAll('.board').length") == 3
    before = points(browser, "c-main"), points(browser, "c-loss")

    spread[1].kill()
    eventually(lambda: state(browser, "b2") == "lost", "the killed board's card")
    eventually(lambda: edge(browser, "b2") == "red", "is red")  # colours change softly
    eventually(lambda: edge(browser, "b1") == "green", "the others stay green")
    log = "document.getElementById('log').textContent"
    eventually(lambda: "board b2 is lost" in browser.ask(log), "the log says so")

    rig.daemon("b2", "1")
    eventually(lambda: state(browser, "b2") == "here", "the board that is back")
    eventually(lambda: edge(browser, "b2") == "green", "is green")
    eventually(
        lambda: points(browser, "c-main") > before[0] and points(browser, "c-loss") > 1,
        "the curves grow",
    )

    browser.resize(390, 800, dark=True)
    eventually(lambda: browser.ask("document.documentElement.dataset.theme") == "dark", "dark")
    width = "document.documentElement.scrollWidth"
    eventually(lambda: browser.ask(width) <= 390, "it fits a telephone")
    browser.ask("document.getElementById('theme').click()")
    assert browser.ask("document.documentElement.dataset.theme") == "light"

    watch.terminate()
    assert watch.wait(PATIENCE) == 0
    eventually(lambda: browser.ask("document.body.dataset.link") == "away", "it is told")
    assert browser.errors == []


@pytest.mark.timeout(600)
def test_a_lab_shows_itself_and_the_page_comes_back_by_itself(
    rig: Rig, browser: Browser
) -> None:
    rig.write_experiment(LONG)

    def lab(place: str, name: str) -> subprocess.Popen[bytes]:
        return rig.start(
            name,
            "fl_server",
            *("lab", str(rig.folder / "tiny.toml"), "--boards", "2", "--run", name),
            *("--runs", str(rig.runs), "--plain", "--web", place),
        )

    first = lab("127.0.0.1:0", "one")
    url = address_of(rig, "one", first)
    browser.open(url)
    eventually(lambda: points(browser, "c-bytes") > 1, "curves of bytes")
    eventually(lambda: state(browser, "b2") == "here", "cards")
    first.terminate()
    assert first.wait(PATIENCE) == 130
    eventually(lambda: browser.ask("document.body.dataset.link") == "away", "the page is gone")
    lab(url.removeprefix("http://").rstrip("/"), "two")
    eventually(lambda: browser.ask("document.body.dataset.link") == "live", "it is back")
    title = "document.getElementById('title').textContent"
    eventually(lambda: browser.ask(title) == "two", "the next run")
    eventually(lambda: points(browser, "c-main") > 1, "its curves")
    assert browser.errors == []
