"""A view drawn for a terminal.

Texts from outside become `Text`: nothing in them is markup or controls the terminal.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from common.ids import brief_ids
from common.texts import printable
from fl_server.watch import facts
from fl_server.watch.board_view import BoardView
from fl_server.watch.facts.lines import MainMetric, TrainingLine, number_in
from fl_server.watch.recovery import Recovery
from fl_server.watch.view import View
from fl_server.watch.words import decimal, duration, measure, size, sparkline

COLOURS = {
    "training": "cyan",
    "testing": "blue",
    "done": "green",
    "trained": "green",
    "failed": "red",
    "lost": "bold red",
    "missing": "yellow",
}
HEIGHT = 30  # of a terminal that does not say
_OTHER_LINES = 6  # the frame, progress, the table's header, the metric, the last round
_NOTES = (2, 6)  # at least, where boards need the room, and at most
_EPOCH_CELLS = 20
_NAME_LETTERS = 32  # of a board
_CLIENTS_LETTERS = 24


def draw(view: View, now: float, height: int = HEIGHT) -> RenderableType:
    """Everything at a glance, in so many lines: boards come first, then news."""
    boards = max(1, len(view.boards)) + bool(view.unlisted)
    room = max(1, height - _OTHER_LINES)
    least, most = (min(count, len(view.notes)) for count in _NOTES)
    notes = min(most, max(least, room - boards))
    shown = _boards(view, now, max(1, room - notes))
    parts = [_progress(view, now), shown, _main(view), _traffic(view)]
    for note in view.notes[-notes:] if notes else ():
        style = "yellow" if note.loud else "dim"
        text = f"  {_clock(note.time)}  {note.text}"
        parts.append(Text(text, style=style, no_wrap=True, overflow="ellipsis"))
    title = Text(printable(view.title), style="bold")
    return Panel(Group(*parts), title=title, title_align="left")


def _progress(view: View, now: float) -> RenderableType:
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    at = (
        f"round {min(view.round_number, view.rounds)}/{view.rounds}"
        if view.round_number
        else view.phase
    )
    if view.round_number > view.rounds:
        at = view.phase
    left = duration(view.seconds_left) if view.seconds_left is not None else "?"
    clock = f"{duration(now - view.started)} · left ~{left}" if view.started else ""
    grid.add_row(
        Text(printable(at), style="bold"),
        ProgressBar(total=1.0, completed=view.share_done),
        Text(clock),
    )
    return grid


def _boards(view: View, now: float, rows: int) -> RenderableType:
    table = Table(expand=True, box=None, padding=(0, 1), header_style="dim")
    table.add_column("board", no_wrap=True, max_width=_NAME_LETTERS)
    for name in ("state", "clients"):
        table.add_column(name, no_wrap=True)
    table.add_column("now", ratio=1, no_wrap=True)
    for name in ("hardware", "updates", "seen"):
        table.add_column(name, justify="right", no_wrap=True)
    names = sorted(view.boards, key=lambda name: (view.boards[name].here, _natural(name)))
    if len(names) + bool(view.unlisted) > rows:
        names, hidden = names[: rows - 1], names[rows - 1 :]
    else:
        hidden = []
    for name in names:
        board = view.boards[name]
        mine = set(board.clients) & set(view.selected)
        sent = f"{len(mine & view.safe)}/{len(mine)}" if mine else "-"
        state = Text(board.doing, style=COLOURS.get(board.doing, ""))
        seen = f"{max(0.0, now - board.seen):.0f} s" if board.seen else "-"
        clients = Text(_clients(board))
        row = (Text(printable(name)), state, clients, _doing(board), _hardware(board))
        table.add_row(*row, Text(sent), Text(seen))
    more = len(hidden) + len(view.unlisted)
    if more:
        counts = Counter(view.boards[name].doing for name in hidden)
        words = ", ".join(f"{count:,} {doing}" for doing, count in counts.most_common())
        table.add_row(Text(f"+{more:,} more"), Text(), Text(), Text(words, style="dim"))
    if not view.boards:
        table.add_row(Text("no board yet", style="yellow"))
    return table


def _clients(board: BoardView) -> str:
    """Which clients, or how many if that is a long list."""
    ids = brief_ids(board.clients, board.more_clients)
    if len(ids) <= _CLIENTS_LETTERS:
        return ids
    return f"{len(board.clients) + board.more_clients:,} clients"


def _hardware(board: BoardView) -> Text:
    """Temperature and memory, as far as the board has reported them."""
    sensed = board.telemetry
    if sensed is None:
        return Text()
    words = ["throttled"] if sensed.throttled else []
    if sensed.celsius is not None:
        words.append(f"{sensed.celsius:.0f} °C")
    if sensed.memory_total:
        words.append(f"{100 * (sensed.memory_used or 0) / sensed.memory_total:.0f} % mem")
    return Text(" ".join(words), style="yellow" if sensed.throttled else "dim")


def _doing(board: BoardView) -> Text:
    if board.problem:
        problem = printable(board.problem)
        return Text(problem, style="red", overflow="ellipsis", no_wrap=True)
    if board.doing == "training":
        cells = min(board.epochs, _EPOCH_CELLS)
        full = cells * min(board.epoch, board.epochs) // max(1, board.epochs)
        done = "█" * full + "░" * (cells - full)
        epochs = f" epoch {board.epoch}/{board.epochs} {done}" if board.epochs else ""
        return Text(f"client {board.client}{epochs}")
    if board.doing == "testing":
        return Text(f"client {board.client}")
    return Text("")


def _main(view: View) -> RenderableType:
    if not view.lines:
        return Text(f"{view.main.name:<10} not tested yet", style="dim")
    shared, before, after = stages(view.main, view.lines[-1])
    values = [view.main.of(line, "global") for line in view.lines]
    history = [value for value in values if value is not None]
    text = Text(f"{view.main.name:<10} ")
    text.append(f"global {shared}", style="bold")
    best = measure(view.best, share=view.main.share)
    text.append(f" (best {best}) {sparkline(history)}")
    text.append(f" · personal {before} → {after}")
    return text


def _traffic(view: View) -> RenderableType:
    last = view.last
    if last is None:
        return Text("last round -", style="dim")
    spent = number_in(last, "epsilon")
    return Text(
        f"last round {last.seconds:.1f} s · {size(last.bytes_up)} up · "
        f"{size(last.bytes_down)} down · loss {decimal(last.train_loss)}"
        + (f" · epsilon {spent:.3g}" if spent is not None else "")
    )


def results_table(view: View) -> RenderableType:
    """The table at the end."""
    title = f"{printable(view.title)}: results ({view.main.name})"
    table = Table(title=Text(title), title_justify="left")
    for name in ("round", "global", "personal (before)", "personal (after)", "loss", "s", "up"):
        table.add_column(name, justify="right")
    for line in _thinned(view.lines):
        seconds, up = number_in(line, "seconds"), number_in(line, "bytes_up")
        table.add_row(
            str(line.round),
            *stages(view.main, line),
            decimal(number_in(line, "train_loss")),
            "-" if seconds is None else f"{seconds:.1f}",
            "-" if up is None else size(up),
        )
    return table


def stages(main: MainMetric, line: TrainingLine) -> tuple[str, str, str]:
    """The main metric of the global model, and of personal ones before and after training."""
    shared, before, after = (
        measure(main.of(line, stage), share=main.share) for stage in ("global", "l1", "l2")
    )
    return shared, before, after


def recovery_table(rows: Sequence[Recovery]) -> RenderableType:
    """What went wrong, how often, and how long it took to recover."""
    table = Table(title="faults", title_justify="left")
    for name in ("fault", "of", "count", "median recovery", "worst"):
        table.add_column(name, justify="left" if name in ("fault", "of") else "right")
    for row in rows:
        times = (f"{row.median:.1f} s", f"{row.worst:.1f} s")
        words = (row.kind, row.target, str(row.count), *times)
        table.add_row(*(Text(printable(word)) for word in words))
    return table


def _thinned(lines: tuple[facts.Evaluated, ...]) -> tuple[facts.Evaluated, ...]:
    """At most about a dozen lines, the last always among them."""
    step = max(1, len(lines) // 12)
    return tuple(line for at, line in enumerate(lines) if (len(lines) - 1 - at) % step == 0)


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def _natural(name: str) -> tuple[str, int]:
    head = name.rstrip("0123456789")
    return head, int(name[len(head) :] or 0)
