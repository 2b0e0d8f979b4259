"""The figures as a table for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from bench.figures import Figure

WORDS = {True: "yes", False: "NO", None: "-"}


def show(figures: list[Figure]) -> None:
    """Print it."""
    table = Table(title="fedbed bench: ratios measured within one run")
    for column in ("", "figure", "against", "must be", "is", "reached"):
        table.add_column(column)
    for item in figures:
        value = "not measured" if item.value is None else f"{item.value:g}"
        what = f"{item.what} ({item.note})" if item.note else item.what
        table.add_row(item.benchmark, what, item.against, item.must, value, WORDS[item.reached])
    Console().print(table)
