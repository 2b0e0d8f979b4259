"""Boards and their time, clients and their classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from fl_server.reports.figures.plot import COLOURS, WIDTH, Plot, new_figure
from fl_server.reports.groups import Group
from fl_server.reports.output.escape import for_plot
from fl_server.reports.timing import mean, times_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Counts: TypeAlias = npt.NDArray[np.int64]


def part_plots(groups: Sequence[Group], counts: Counts | None) -> list[Plot]:
    """The figures that these runs have data for."""
    found = []
    if any(times_of(group) for group in groups):
        text = "Mean seconds per training of a board: before, during and after it."
        found.append(Plot("boards", "Time per board", text, lambda: _boards(groups)))
    if counts is not None:
        text = "Samples of each class that the clients have (first seed)."
        found.append(Plot("classes", "Class distribution", text, lambda: _classes(counts)))
    return found


def _boards(groups: Sequence[Group]) -> Figure:
    rows = [
        (f"{group.label} · {name}" if len(groups) > 1 else name, times)
        for group in groups
        for name, times in times_of(group).items()
    ]
    figure = new_figure(WIDTH, 1.3 + 0.24 * len(rows))
    axes = figure.subplots()
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    start = np.zeros(len(rows))
    parts = (("before", "#aab4c3"), ("training", COLOURS[0]), ("after", COLOURS[1]))
    for (name, colour), which in zip(parts, ("waits", "trainings", "sendings"), strict=True):
        width = np.array([mean(getattr(times, which)) or 0.0 for _, times in rows])
        axes.barh(range(len(rows)), width, left=start, color=colour, label=name, height=0.62)
        start += width
    axes.set_yticks(range(len(rows)), [for_plot(name) for name, _ in rows])
    axes.invert_yaxis()
    axes.set_xlabel("seconds")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def _classes(counts: Counts) -> Figure:
    figure = new_figure(WIDTH, 2.7)
    axes = figure.subplots()
    clients = np.arange(len(counts))
    start = np.zeros(len(counts))
    classes = counts.shape[1]
    for label in range(classes):
        colour = COLOURS[label % len(COLOURS)]
        name = str(label) if classes <= 20 else None
        axes.bar(clients, counts[:, label], bottom=start, color=colour, width=0.8, label=name)
        start += counts[:, label]
    axes.set_xlabel("client")
    axes.set_ylabel("samples")
    axes.margins(x=0.01)
    if len(counts) <= 40:
        axes.set_xticks(clients)
    if classes <= 20:
        figure.legend(loc="outside right upper", title="class")
    return figure
