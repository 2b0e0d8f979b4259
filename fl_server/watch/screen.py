"""A view drawn: live in a terminal, or line by line where there is none."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from common.ids import show_ids
from fl_server.lab.faulty_lab import Recovery
from fl_server.run.summary import Summary
from fl_server.watch.view import LOUD, BoardView, View

Style: TypeAlias = Literal["screen", "plain", "quiet", "json"]
BARS = "▁▂▃▄▅▆▇█"
COLOURS = {
    "training": "cyan",
    "testing": "blue",
    "done": "green",
    "trained": "green",
    "failed": "red",
    "lost": "bold red",
    "missing": "yellow",
}
LIVE_ONLY = ("info", "presence", "tested")
_SHOWN_BOARDS = 16
_SHOWN_NOTES = 6


class Screen:
    """The live view; `observe` takes facts from any thread."""

    def __init__(self, title: str) -> None:
        self.view = View(title=title)
        self._live = Live(self, refresh_per_second=4, transient=False)

    def __rich__(self) -> RenderableType:
        return draw(self.view, time.time())

    def observe(self, fact: Mapping[str, Any]) -> None:
        """Take a fact."""
        self.view = self.view.after(fact)

    def say(self, text: str) -> None:
        """One line below everything."""
        Console(highlight=False, soft_wrap=True, markup=False).print(text)

    def __enter__(self) -> Screen:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()


class Lines:
    """The same, one line per happening, for logs and pipes."""

    def __init__(self, title: str) -> None:
        self.view = View(title=title)
        self._console = Console(file=sys.stdout, highlight=False, soft_wrap=True, markup=False)

    def observe(self, fact: Mapping[str, Any]) -> None:
        """Take a fact and say it, if it is worth a line."""
        self.view = self.view.after(fact)
        line = describe(self.view, fact)
        if line:
            stamp = time.strftime("%H:%M:%S", time.localtime(fact["time"]))
            self._console.print(f"{stamp} {line}")

    def say(self, text: str) -> None:
        """One line below everything."""
        self._console.print(text)

    def show(self, table: RenderableType) -> None:
        """A table below everything."""
        self._console.print(table)

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Records(Lines):
    """The same for machines: one JSON object per happening."""

    def observe(self, fact: Mapping[str, Any]) -> None:
        """Take a fact and write it, unless it is only for the live screen."""
        self.view = self.view.after(fact)
        if fact["event"] not in LIVE_ONLY:
            self._write(fact)

    def say(self, text: str) -> None:
        """One object below everything."""
        self._write({"event": "said", "text": text, "time": round(time.time(), 3)})

    def _write(self, fact: Mapping[str, Any]) -> None:
        self._console.out(msgspec.json.encode(fact).decode(), highlight=False)


class Warnings(Lines):
    """Only what a person has to know, and the end."""

    def observe(self, fact: Mapping[str, Any]) -> None:
        """Take a fact; say it only if something went wrong or everything is over."""
        if fact["event"] in LOUD or fact["event"] in ("finished", "interrupted"):
            super().observe(fact)
        else:
            self.view = self.view.after(fact)


def make_display(title: str, style: Style) -> Screen | Lines:
    """A live screen where somebody looks at one, lines otherwise."""
    if style == "screen" and Console().is_terminal:
        return Screen(title)
    kinds = {"json": Records, "quiet": Warnings}
    return kinds.get(style, Lines)(title)


def describe(view: View, fact: Mapping[str, Any]) -> str:
    """A fact in one line; nothing for those that are only for the live screen."""
    match fact["event"]:
        case "started":
            safe = len(fact.get("safe", ()))
            again = f", going on after round {fact['done']} with {safe} updates of the next"
            again = again if fact.get("incarnation", 1) > 1 else ""
            return (
                f"{view.title}: {fact['rounds']} rounds, {fact['participants']} clients{again}"
            )
        case "round_closed":
            return (
                f"round {fact['round']}/{view.rounds}: {fact['updates']} updates in "
                f"{fact['seconds']:.1f} s, loss {number(fact.get('train_loss'))}, "
                f"{size(fact['bytes_up'])} up, {size(fact['bytes_down'])} down"
                f"{_left(view)}"
            )
        case "evaluated":
            return (
                f"after round {fact['round']}: global {percent(fact['accuracy_global'])}, "
                f"personal {percent(fact['accuracy_l1'])} before and "
                f"{percent(fact['accuracy_l2'])} after own training"
            )
        case "finished":
            model = f"; model {fact['digest']}" if fact.get("digest") else ""
            return f"{fact['reason']}{model}"
        case "interrupted":
            return "interrupted"
        case "broker_up":
            return f"broker at {fact['address']}"
        case "broker_down":
            return f"lost the broker at {fact['address']} ({fact['text']}); trying again"
        case _:
            return str(fact.get("text", ""))


def _left(view: View) -> str:
    left = view.seconds_left
    return f", about {duration(left)} left" if left else ""


# the live screen


def draw(view: View, now: float) -> RenderableType:
    """Everything at a glance."""
    parts = [_progress(view, now), _boards(view, now), _accuracy(view), _traffic(view)]
    for note in view.notes[-_SHOWN_NOTES:]:
        style = "yellow" if note.loud else "dim"
        parts.append(Text(f"  {_clock(note.time)}  {note.text}", style=style))
    return Panel(Group(*parts), title=f"[bold]{view.title}", title_align="left")


def _progress(view: View, now: float) -> RenderableType:
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    at = f"round {min(view.number, view.rounds)}/{view.rounds}" if view.number else view.phase
    if view.number > view.rounds:
        at = view.phase
    left = duration(view.seconds_left) if view.seconds_left is not None else "?"
    clock = f"{duration(now - view.started)} · left ~{left}" if view.started else ""
    grid.add_row(
        Text(at, style="bold"), ProgressBar(total=1.0, completed=view.share_done), clock
    )
    return grid


def _boards(view: View, now: float) -> RenderableType:
    table = Table(expand=True, box=None, padding=(0, 1), header_style="dim")
    for name in ("board", "state", "clients"):
        table.add_column(name)
    table.add_column("now", ratio=1)
    for name in ("hardware", "updates", "seen"):
        table.add_column(name, justify="right")
    names = sorted(view.boards, key=lambda name: (view.boards[name].here, _natural(name)))
    for name in names[:_SHOWN_BOARDS]:
        board = view.boards[name]
        mine = set(board.clients) & set(view.selected)
        sent = f"{len(mine & view.safe)}/{len(mine)}" if mine else "-"
        state = Text(board.doing, style=COLOURS.get(board.doing, ""))
        seen = f"{max(0.0, now - board.seen):.0f} s" if board.seen else "-"
        clients, hardware = show_ids(board.clients), _hardware(board)
        table.add_row(name, state, clients, _doing(board), hardware, sent, seen)
    if len(names) > _SHOWN_BOARDS:
        table.add_row(f"+{len(names) - _SHOWN_BOARDS} more")
    if not names:
        table.add_row(Text("no board yet", style="yellow"))
    return table


def _hardware(board: BoardView) -> Text:
    """Temperature and memory, as far as the board has told them."""
    told = board.telemetry
    words = []
    if told.get("throttled"):
        words.append("throttled")
    if told.get("celsius") is not None:
        words.append(f"{told['celsius']:.0f} °C")
    if told.get("memory_total"):
        words.append(f"{100 * told.get('memory_used', 0) / told['memory_total']:.0f} % mem")
    return Text(" ".join(words), style="yellow" if told.get("throttled") else "dim")


def _doing(board: BoardView) -> Text:
    if board.problem:
        return Text(board.problem, style="red", overflow="ellipsis", no_wrap=True)
    if board.doing == "training":
        done = "█" * board.epoch + "░" * max(0, board.epochs - board.epoch)
        epochs = f" epoch {board.epoch}/{board.epochs} {done[:20]}" if board.epochs else ""
        return Text(f"client {board.client}{epochs}")
    if board.doing == "testing":
        return Text(f"client {board.client}")
    return Text("")


def _accuracy(view: View) -> RenderableType:
    if not view.lines:
        return Text("accuracy   not tested yet", style="dim")
    last = view.lines[-1]
    history = [line["accuracy_global"] for line in view.lines if line["accuracy_global"]]
    text = Text("accuracy   ")
    text.append(f"global {percent(last['accuracy_global'])}", style="bold")
    text.append(f" (best {percent(view.best('accuracy_global'))}) {sparkline(history)}")
    text.append(f" · personal {percent(last['accuracy_l1'])} → {percent(last['accuracy_l2'])}")
    return text


def _traffic(view: View) -> RenderableType:
    if not view.last:
        return Text("last round -", style="dim")
    last = view.last
    return Text(
        f"last round {last['seconds']:.1f} s · {size(last['bytes_up'])} up · "
        f"{size(last['bytes_down'])} down · loss {number(last['train_loss'])}"
    )


def summary(view: View) -> RenderableType:
    """The table at the end."""
    table = Table(title=f"{view.title}: results", title_justify="left")
    for name in ("round", "global", "personal (before)", "personal (after)", "loss", "s", "up"):
        table.add_column(name, justify="right")
    for line in _thinned(view.lines):
        table.add_row(
            str(line["round"]),
            percent(line["accuracy_global"]),
            percent(line["accuracy_l1"]),
            percent(line["accuracy_l2"]),
            number(line.get("train_loss")),
            f"{line['seconds']:.1f}" if "seconds" in line else "-",
            size(line["bytes_up"]) if "bytes_up" in line else "-",
        )
    return table


def recovery_table(rows: list[Recovery]) -> RenderableType:
    """What went wrong, how often, and how long it took to recover."""
    table = Table(title="faults", title_justify="left")
    for name in ("fault", "of", "count", "median recovery", "worst"):
        table.add_column(name, justify="left" if name in ("fault", "of") else "right")
    for row in rows:
        times = (f"{row.median:.1f} s", f"{row.worst:.1f} s")
        table.add_row(row.kind, row.target, str(row.count), *times)
    return table


def show_summary(view: View) -> None:
    """Print the table and where everything is."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(summary(view))
    for line in _in_words(Path(view.folder)):
        console.print(line)
    if view.refused:
        counts = ", ".join(f"{board} {n:,}" for board, n in sorted(view.refused.items()))
        console.print(f"messages dropped or rejected, per board: {counts}")
    console.print(f"results: {view.folder}/ (metrics.jsonl, events.jsonl, model.safetensors)")


def show_status(view: View) -> None:
    """Print how things are, once."""
    console = Console(highlight=False)
    if not view.run:
        console.print("no experiment was ever started here", markup=False)
    console.print(draw(view, time.time()))


def _in_words(folder: Path) -> list[str]:
    """The summary of the whole run in a few lines, also of what an earlier start has done."""
    found = msgspec.json.decode((folder / "summary.json").read_bytes(), type=Summary)
    named = {
        "global": "accuracy_global",
        "personal": f"accuracy_{found.personal_stage.lower()}",
    }
    parts = [
        f"{name} {percent(figure.best)} (round {figure.best_round})"
        for name, metric in named.items()
        if (figure := found.figures.get(metric)) is not None
    ]
    ratio = f"; log10(global/personal) = {found.overall.value:+.3f}" if found.overall else ""
    cost = found.cost
    return [
        f"best: {', '.join(parts) or 'nothing was tested'}{ratio}",
        f"cost: {size(cost.bytes_up)} up, {size(cost.bytes_down)} down, "
        f"{duration(cost.seconds)} in rounds, {duration(cost.train_seconds)} of training",
    ]


def _thinned(lines: tuple[Mapping[str, Any], ...]) -> tuple[Mapping[str, Any], ...]:
    """At most about a dozen lines, the last always among them."""
    step = max(1, len(lines) // 12)
    return tuple(line for at, line in enumerate(lines) if (len(lines) - 1 - at) % step == 0)


def sparkline(values: list[float], width: int = 24) -> str:
    """A curve in one line."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((value - low) * scale)] for value in values[-width:])


def percent(value: float | None) -> str:
    """0.8123 -> 81.2 %."""
    return "-" if value is None else f"{100 * value:.1f} %"


def number(value: float | None) -> str:
    """Three digits behind the point."""
    return "-" if value is None else f"{value:.3f}"


def size(count: float) -> str:
    """Bytes as people say them."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def duration(seconds: float) -> str:
    """Seconds as m:ss or h:mm:ss."""
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def _natural(name: str) -> tuple[str, int]:
    head = name.rstrip("0123456789")
    return head, int(name[len(head) :] or 0)
