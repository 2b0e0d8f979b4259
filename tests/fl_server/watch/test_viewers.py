"""A run goes on, whatever becomes of those who look at it."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader

from fl_server.run.journal import Journal
from fl_server.run.metrics.tensorboard import EventFile
from fl_server.watch import facts
from fl_server.watch.displays import Screen
from fl_server.watch.facts import Fact
from fl_server.watch.viewers import Viewers
from tests.e2e.rig import TINY


def test_a_viewer_that_fails_is_dropped_with_one_warning_and_the_others_stay(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[Fact] = []

    def fail(fact: Fact) -> None:
        raise ValueError(f"[/x]\x1b[31m\n{fact}")

    viewers = Viewers({"the display": fail, "the other": seen.append})
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            viewers.observe(facts.Update(number, 1))
    assert len(seen) == 3
    assert len(caplog.records) == 1
    text = caplog.records[0].getMessage()
    assert text.startswith("the display has failed (ValueError: [/x]")
    assert text.isprintable()
    assert (viewers.has("the display"), viewers.has("the other")) == (False, True)


def test_a_screen_that_cannot_be_drawn_says_so() -> None:
    class Broken(Screen):
        def drawn(self) -> str:
            raise ValueError("[/x]")

    console = Console(width=80)
    with console.capture() as captured:
        console.print(Broken("x"))
    assert captured.get() == "cannot be drawn: ValueError: [/x]\n"


@pytest.mark.parametrize("loss", [1e30, -1e30, 1e300, 1e308, 5e-324])
def test_extreme_numbers_fit_into_an_event_file(tmp_path: Path, loss: float) -> None:
    journal = Journal(tmp_path / "metrics.jsonl")
    journal.append({"round": 0, "train_loss": loss, "bytes_up": 2**53})  # an older run
    journal.close()
    file = EventFile(tmp_path, 1.0)
    closed = facts.RoundClosed(round=10**9, train_loss=loss, updates=10**9, seconds=1e9,
                               bytes_up=2**63, bytes_down=2**53)  # fmt: skip
    file.observe(closed)
    file.close()
    (path,) = (tmp_path / "tensorboard").iterdir()
    assert len(list(RawEventFileLoader(str(path)).Load())) == 3


@pytest.mark.slow
def test_a_run_whose_reader_has_gone_ends_with_the_same_model(tmp_path: Path) -> None:
    file = tmp_path / "tiny.toml"
    file.write_text(TINY)

    def simulate(name: str, output: int) -> str:
        subprocess.run(
            [
                *(sys.executable, "-m", "fl_server", "simulate", str(file), "--plain"),
                *("--run", name, "--runs", str(tmp_path)),
            ],
            stdout=output,
            stderr=subprocess.DEVNULL,
            timeout=100,
            check=False,
        )
        events = (tmp_path / name / "events.jsonl").read_text().splitlines()
        end = json.loads(events[-1])
        assert end["event"] == "finished"
        return str(end["digest"])

    reading, writing = os.pipe()
    os.close(reading)
    try:
        lonely = simulate("lonely", writing)
    finally:
        os.close(writing)
    assert lonely == simulate("watched", subprocess.DEVNULL)
    log = (tmp_path / "lonely" / "server.log").read_text()
    assert log.count("the display has failed (BrokenPipeError") == 1
