"""Where a view is shown: live in a terminal, or line by line where there is none.

Facts may be observed from any thread; a lock keeps every one of them.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from common.texts import printable
from fl_server.run.metrics.summary import Summary
from fl_server.watch import facts
from fl_server.watch.facts import Fact
from fl_server.watch.facts.lines import ACCURACY, number_in
from fl_server.watch.facts.making import encode, stamped
from fl_server.watch.notes import Loud, sentence
from fl_server.watch.screen import HEIGHT, draw, results_table, stages
from fl_server.watch.view import View
from fl_server.watch.words import decimal, duration, measure, size

Style: TypeAlias = Literal["screen", "plain", "quiet", "json"]
_SHOWN_REFUSED = 20
LineOf: TypeAlias = Callable[[View, Fact], str]  # "" for a fact that is not worth a line


class Output(Console):
    """A terminal or pipe; if its reader goes away, that ends a display and not the run."""

    def on_broken_pipe(self) -> None:
        """What is written from now on is lost; rich would end the program."""
        with suppress(SystemExit):
            super().on_broken_pipe()
        raise BrokenPipeError("its reader has gone")


class SharedView:
    """A view that several threads may bring up to date."""

    def __init__(self, title: str) -> None:
        self._view = View(title=title)
        self._lock = threading.Lock()

    @property
    def view(self) -> View:
        """The run as it is seen now."""
        return self._view

    def update(self, fact: Fact, shown: Callable[[View], None] | None = None) -> None:
        """Take a fact; `shown` is called with the new view before the next fact is taken."""
        with self._lock:
            self._view = self._view.after(fact)
            if shown is not None:
                shown(self._view)

    def recall(self, past: Iterable[Fact]) -> None:
        """Take what happened before this start of the run."""
        with self._lock:
            for fact in past:
                self._view = self._view.after(fact)
            self._view = self._view.restarted()


class Screen:
    """The live view."""

    def __init__(self, title: str) -> None:
        self._shared = SharedView(title)
        self._console = Output()
        self._live = Live(self, console=self._console, refresh_per_second=4, transient=False)

    @property
    def view(self) -> View:
        """The run as it is seen now."""
        return self._shared.view

    def __rich__(self) -> RenderableType:
        try:
            return self.drawn()
        except Exception as error:  # noqa: BLE001 - the run must go on
            return Text(printable(f"cannot be drawn: {type(error).__name__}: {error}"))

    def drawn(self) -> RenderableType:
        """What is on the screen."""
        return draw(self.view, time.time(), self.height)

    @property
    def height(self) -> int:
        """How many lines there are to draw on; the last one of the terminal stays free."""
        return self._console.size.height - 1

    def observe(self, fact: Fact) -> None:
        """Take a fact."""
        self._shared.update(fact)

    def recall(self, past: Iterable[Fact]) -> None:
        """Know what happened before."""
        self._shared.recall(past)

    def write(self, text: str) -> None:
        """One line below everything."""
        Output(highlight=False, soft_wrap=True, markup=False).print(Text(printable(text)))

    def __enter__(self) -> Screen:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()


class Lines:
    """One line per fact, for logs, pipes and other programs."""

    def __init__(self, title: str, line_of: LineOf | None = None) -> None:
        self._shared = SharedView(title)
        self._line_of = line_of or plain_line
        self._console = Output(file=sys.stdout, highlight=False, soft_wrap=True, markup=False)

    @property
    def view(self) -> View:
        """The run as it is seen now."""
        return self._shared.view

    def observe(self, fact: Fact) -> None:
        """Take a fact, and write its line if it has one."""
        self._shared.update(fact, lambda view: self._print(self._line_of(view, fact)))

    def recall(self, past: Iterable[Fact]) -> None:
        """Know what happened before; nothing is written of it."""
        self._shared.recall(past)

    def write(self, text: str) -> None:
        """One line below everything."""
        self._print(self._line_of(self.view, stamped(facts.Printed(text), time.time())))

    def show(self, table: RenderableType) -> None:
        """A table below everything."""
        self._console.print(table)

    def _print(self, line: str) -> None:
        if line:
            self._console.out(printable(line), highlight=False)

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def can_draw() -> bool:
    """Whether there is a terminal that can do more than print lines."""
    console = Console()
    return console.is_terminal and not console.is_dumb_terminal


def make_display(title: str, style: Style) -> Screen | Lines:
    """A live screen in a terminal, lines otherwise."""
    if style == "screen" and can_draw():
        return Screen(title)
    lines: dict[Style, LineOf] = {"json": json_line, "quiet": warning_line}
    return Lines(title, lines.get(style, plain_line))


def plain_line(view: View, fact: Fact) -> str:
    """The time and a sentence."""
    if isinstance(fact, facts.Printed):
        return fact.text
    line = describe(view, fact)
    return f"{time.strftime('%H:%M:%S', time.localtime(fact.time))} {line}" if line else ""


def json_line(_view: View, fact: Fact) -> str:
    """One JSON object; none for what only a live screen needs."""
    live_only = isinstance(fact, facts.Info | facts.Presence | facts.Tested)
    return "" if live_only else encode(fact).decode()


def warning_line(view: View, fact: Fact) -> str:
    """Only what went wrong, and the end."""
    shown = isinstance(fact, Loud | facts.Finished | facts.Interrupted | facts.Printed)
    return plain_line(view, fact) if shown else ""


def describe(view: View, fact: Fact) -> str:
    """A fact in one line; nothing for those that are only for the live screen."""
    match fact:
        case facts.Started():
            again = (
                f", going on after round {fact.done} with {len(fact.safe)} updates of the next"
            )
            again = again if fact.incarnation > 1 else ""
            return f"{view.title}: {fact.rounds} rounds, {fact.participants} clients{again}"
        case facts.RoundClosed():
            left, spent = view.seconds_left, number_in(fact, "epsilon")
            return (
                f"round {fact.round}/{view.rounds}: {fact.updates} updates in "
                f"{fact.seconds:.1f} s, loss {decimal(fact.train_loss)}, "
                f"{size(fact.bytes_up)} up, {size(fact.bytes_down)} down"
                + (f", epsilon {spent:.3g}" if spent is not None else "")
                + (f", about {duration(left)} left" if left else "")
            )
        case facts.Evaluated():
            shared, before, after = stages(view.main, fact)
            what = "" if view.main == ACCURACY else f"{view.main.name} "
            return (
                f"after round {fact.round}: {what}global {shared}, personal {before} before "
                f"and {after} after own training"
            )
        case facts.Finished():
            return f"{fact.reason}; model {fact.digest}" if fact.digest else fact.reason
        case _:
            return sentence(fact)


def show_summary(view: View) -> None:
    """Print the table and where everything is."""
    console = Output(highlight=False, soft_wrap=True)
    console.print(results_table(view))
    lines = _summary_lines(Path(view.folder))
    if view.refused:
        lines.append(f"messages dropped or rejected, per board: {_counts(view.refused)}")
    lines.append(f"results: {view.folder}/ (metrics.jsonl, events.jsonl, model.safetensors)")
    for line in lines:
        console.print(Text(printable(line)))


def _counts(refused: Mapping[str, int]) -> str:
    """The boards with most messages that were refused, in the order of their names."""
    most = sorted(refused, key=lambda board: -refused[board])[:_SHOWN_REFUSED]
    more = f" and {len(refused) - len(most):,} more boards" if len(refused) > len(most) else ""
    return ", ".join(f"{board} {refused[board]:,}" for board in sorted(most)) + more


def show_status(view: View) -> None:
    """Print how things are, once."""
    console = Console(highlight=False)
    if not view.run:
        console.print(Text("no experiment was ever started here"))
    console.print(draw(view, time.time(), HEIGHT + len(view.boards)))


def _summary_lines(folder: Path) -> list[str]:
    """The summary of the whole run in a few lines, also of what an earlier start has done."""
    found = msgspec.json.decode((folder / "summary.json").read_bytes(), type=Summary)
    named = {
        "global": f"{found.main}_global",
        "personal": f"{found.main}_{found.personal_stage.lower()}",
    }
    parts = [
        f"{name} {measure(figure.best, share=found.share)} (round {figure.best_round})"
        for name, metric in named.items()
        if (figure := found.figures.get(metric)) is not None
    ]
    both = found.overall if found.share else None  # a ratio of errors says little
    ratio = f"; log10(global/personal) = {both.value:+.3f}" if both else ""
    cost = found.cost
    return [
        f"best {found.main}: {', '.join(parts) or 'nothing was tested'}{ratio}",
        f"cost: {size(cost.bytes_up)} up, {size(cost.bytes_down)} down, "
        f"{duration(cost.seconds)} in rounds, {duration(cost.train_seconds)} of training",
    ]
