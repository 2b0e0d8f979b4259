"""Class distributions as bars in a terminal: a bar per client, a colour per class."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from common.data.rebalance import Counts
from common.texts import escaped

# as matplotlib's "tab10", so that both pictures of a distribution look alike
PALETTE = (
    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd",
    "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf",
)  # fmt: skip
SIGNS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
ONE_COLUMN = 40  # with more clients than this the bars stand in two columns
NARROWEST = 10  # a bar


def print_bars(
    title: str, counts: Counts, notes: Sequence[str], footer: str, noun: str = "class"
) -> None:
    """Print a bar for each row, followed by its note."""
    console = Console(highlight=False)
    coloured = console.color_system is not None
    bars = draw_bars(counts, notes, console.width, coloured=coloured, noun=noun)
    title, footer = escaped(title, keep="\n"), escaped(footer, keep="\n")
    console.print(Text(title, style="bold"), bars, Text(footer), sep="\n")


def draw_bars(
    counts: Counts,
    notes: Sequence[str],
    width: int,
    *,
    coloured: bool = True,
    noun: str = "class",
) -> RenderableType:
    """A bar for each row; the longest one fills the width."""
    columns = 1 if len(counts) <= ONE_COLUMN else 2
    name, note = len(str(len(counts) - 1)), max(map(len, notes))
    room = max(NARROWEST, width // columns - name - note - 3)
    colours = palette(counts.shape[1])
    longest = int(counts.sum(1).max())
    lines = [
        Text.assemble(
            (f"{client:>{name}} ", "bold"),
            _bar(row, room * int(row.sum()) / longest, colours, coloured=coloured),
        )
        for client, row in enumerate(counts)
    ]
    for line, text in zip(lines, notes, strict=True):
        line.pad_right(name + 1 + room - len(line))
        line.append(f" {text:>{note}}")
    half = -(-len(lines) // columns)
    grid = Table.grid(padding=(0, 2, 0, 0))
    for index in range(half):
        grid.add_row(*lines[index::half])
    return Group(grid, _legend(colours, noun)) if len(colours) > 1 else grid


def _bar(row: Counts, length: float, colours: Sequence[str], *, coloured: bool) -> Text:
    """One client's classes in order; a cell is of the class that has the sample in its middle.

    With colours the sign of a class stands once, without them in each of its cells.
    """
    cells = max(1, round(length))
    ends = np.cumsum(row)
    labels = np.searchsorted(ends, (np.arange(cells) + 0.5) / cells * ends[-1], side="right")
    text, before = Text(), None
    for label in labels:
        sign = " " if coloured and label == before else _sign(label, len(colours))
        text.append(sign, _style(colours[label]))
        before = label
    return text


def _sign(label: int, classes: int) -> str:
    return "#" if classes == 1 else SIGNS[label % len(SIGNS)]


def palette(classes: int) -> tuple[str, ...]:
    """A colour for each class, of as many hues as it takes."""
    if classes <= len(PALETTE):
        return PALETTE[:classes]
    shades = []
    for label in range(classes):
        red, green, blue = colorsys.hls_to_rgb(label / classes, (0.45, 0.65)[label % 2], 0.7)
        shades.append(f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}")
    return tuple(shades)


def _legend(colours: Sequence[str], noun: str) -> Text:
    text = Text(f"{noun} ")
    for label, colour in enumerate(colours):
        text.append(f" {label} ", _style(colour))
    return text


def _style(colour: str) -> Style:
    return Style(color="white", bgcolor=colour)
