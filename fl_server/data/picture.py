"""Class distributions as a picture for a paper: PNG or SVG, by matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from common.data.rebalance import Counts
from common.disk.atomic import disk_errors
from common.errors import FedbedError, UsageError
from common.texts import escaped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = (".png", ".svg")
DOTS = 100  # per inch
LEGEND_ROWS = 25
TICKS = 25


def check_picture(path: Path) -> None:
    """Refuse a file name that is no picture, before anything is computed."""
    if path.suffix not in KINDS:
        raise UsageError(f"{path} is no picture; expected a name that ends in .png or .svg")


def write_picture(path: Path, title: str, counts: Counts, colours: tuple[str, ...]) -> None:
    """A horizontal bar for each row (a client), stacked of its columns (classes)."""
    figure = new_figure()
    axes = figure.add_subplot()
    clients = np.arange(len(counts))
    starts = np.zeros(len(counts))
    for label, colour in enumerate(colours):
        axes.barh(clients, counts[:, label], 0.8, starts, color=colour, label=f"{label}")
        starts += counts[:, label]
    axes.set(xlabel="samples", ylabel="client", ylim=(-0.7, len(counts) - 0.3))
    plain = escaped(title, keep="\n").replace("$", r"\$")  # $ would begin a formula
    axes.set_title(plain, loc="left")
    step = next((step for step in (1, 2, 5, 10, 20, 50) if len(counts) <= step * TICKS), 100)
    axes.set_yticks(clients[::step])
    axes.margins(x=0.01)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.legend(
        title="class",
        loc="outside right upper",
        ncols=-(-len(colours) // LEGEND_ROWS),
        frameon=False,
    )
    figure.set_size_inches(8, min(12, max(3.5, 1.2 + 0.22 * len(counts))))
    about = {"Date": None} if path.suffix == ".svg" else None  # the same picture, the same file
    with disk_errors(path):
        figure.savefig(path, dpi=DOTS, metadata=about)


def new_figure() -> Figure:
    """An empty figure; an error that says what to install if there is no matplotlib."""
    try:
        from matplotlib.figure import Figure  # slow, and only pictures need it
    except ImportError as error:
        raise FedbedError(
            "pictures need matplotlib, which is not installed; expected it from: "
            "pip install 'fedbed[plots]'"
        ) from error
    return Figure(layout="constrained")
