"""A sweep drawn: one bar over all runs above the run that goes on, or lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fl_server.sweeps.grid import Planned
from fl_server.sweeps.pace import Pace
from fl_server.watch.displays import Lines, Screen, Style, can_draw, make_display
from fl_server.watch.screen import draw
from fl_server.watch.words import duration


@dataclass(slots=True)
class SweepDisplay:
    """How far a sweep is, and the display of the run that goes on."""

    pace: Pace
    style: Style
    shown: Screen | Lines | None = None

    def display(self, title: str) -> Screen | Lines:
        """The display of the next run."""
        if self.style == "screen" and can_draw():
            self.shown = _SweepScreen(title, lambda: self.pace)
        else:
            self.shown = make_display(title, self.style)
        return self.shown

    def count(self, *, ok: bool) -> None:
        """The run that was shown has ended."""
        seconds = self.shown.view.round_seconds if self.shown is not None else ()
        self.pace = self.pace.after(seconds=seconds, ok=ok)
        self.shown = None

    def write(self, text: str) -> None:
        """One line, between runs."""
        make_display("sweep", self.style if self.style == "json" else "plain").write(text)

    def where(self) -> str:
        """How far the sweep is, as text."""
        pace = self.pace
        left = pace.seconds_left((), 0)
        failed = f", {pace.failed} failed" if pace.failed else ""
        about = f", about {duration(left)} left" if left else ""
        return f"{pace.done}/{len(pace.rounds)} runs done{failed}{about}"


def pace_of(finished: Sequence[Planned], todo: Sequence[Planned]) -> Pace:
    """The pace of a sweep at its start."""
    rounds = [planned.experiment.experiment.rounds for planned in (*finished, *todo)]
    return Pace(rounds, done=len(finished))


class _SweepScreen(Screen):
    """The screen of one run, with the whole sweep above it."""

    def __init__(self, title: str, pace: Callable[[], Pace]) -> None:
        super().__init__(title)
        self._pace = pace

    def drawn(self) -> RenderableType:
        """The bar of the sweep, and the run."""
        return Group(_bar(self._pace(), self), draw(self.view, time.time(), self.height - 1))


def _bar(pace: Pace, screen: Screen) -> RenderableType:
    view = screen.view
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    left = pace.seconds_left(view.round_seconds, view.done)
    failed = f" · {pace.failed} failed" if pace.failed else ""
    grid.add_row(
        Text(f"sweep: run {min(pace.done + 1, len(pace.rounds))}/{len(pace.rounds)}", "bold"),
        ProgressBar(total=1.0, completed=pace.share(view.done)),
        Text(f"left ~{duration(left) if left is not None else '?'}{failed}"),
    )
    return grid
