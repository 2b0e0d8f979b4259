"""Tables in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Drawn
from rich.text import Text

from common.texts import printable
from fl_server.reports.groups import group_runs
from fl_server.reports.output.render import texts
from fl_server.reports.run_data import RunData
from fl_server.reports.tables import Table, results
from fl_server.reports.tables.reach import energy_to, time_to
from fl_server.watch.displays import can_draw

WIDEST = 400


def print_table(table: Table) -> None:
    """One table and what its numbers are; it is as wide as it needs to be, nothing is cut."""
    drawn = Drawn(
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
        pad_edge=False,
    )
    for column in table.columns:
        if column.unit == "text":
            drawn.add_column(Text(printable(column.name.strip())), overflow="fold")
        else:
            drawn.add_column(Text(_broken(column.name)), justify="right", no_wrap=True)
    for row, cells in enumerate(texts(table)):
        drawn.add_row(
            *(_cell(text, wins=(row, at) in table.winners) for at, text in enumerate(cells))
        )
    wide = Console(width=WIDEST)
    needed = wide.measure(drawn).maximum
    width = max(Console().width, min(needed, WIDEST))
    console = Console(highlight=False, markup=False, width=width)
    console.print(Text(printable(table.title), style="bold"))
    console.print(drawn)
    if table.note:
        console.print(Padding(Text(printable(table.note), style="dim"), (0, 0, 1, 1)), width=80)


def _cell(text: str, *, wins: bool) -> Text:
    """A winner is bold; where that cannot be seen, it has a star."""
    if not wins:
        return Text(text)
    return Text(text if can_draw() else f"*{text}", style="bold")


def _broken(name: str) -> str:
    """A long head on two lines: the numbers decide how wide a column is."""
    name = printable(name.strip())
    return name if len(name) < 8 else name.replace(" ", "\n", 1)


def print_results(runs: Sequence[RunData], *, costs: bool = False) -> None:
    """The table of results; with `costs` also how long it took, and at what cost."""
    groups = group_runs(runs)
    found = [results(groups), *((time_to(groups), energy_to(groups)) if costs else ())]
    for table in found:
        if table is not None:
            print_table(table)
