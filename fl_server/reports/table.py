"""Tables in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Drawn
from rich.text import Text

from fl_server.reports.groups import group_runs
from fl_server.reports.render import texts
from fl_server.reports.runs import RunData
from fl_server.reports.tables import Table, results


def print_table(table: Table) -> None:
    """One table and what its numbers are."""
    console = Console(highlight=False, markup=False)
    drawn = Drawn(title=Text(table.title, style="bold"), title_justify="left")
    for column in table.columns:
        justify = "left" if column.unit == "text" else "right"
        drawn.add_column(column.name.strip(), justify=justify)  # type: ignore[arg-type]
    for row in texts(table):
        drawn.add_row(*map(Text, row))
    console.print(drawn)
    if table.note:
        console.print(Padding(Text(table.note, style="dim"), (0, 0, 1, 1)))


def print_results(runs: Sequence[RunData]) -> None:
    """The table of results alone."""
    print_table(results(group_runs(runs)))
