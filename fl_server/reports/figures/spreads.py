"""How a metric is spread over clients (boxes, and a point for each) and over classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fl_server.reports.figures.plot import INK, WIDTH, Plot, look, new_figure
from fl_server.reports.groups import Group
from fl_server.reports.output.escape import for_plot
from fl_server.reports.tables import main_column
from fl_server.reports.tables.clients import MODELS, Of, class_values, values_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES: dict[Of, str] = {"global": "Global model", "personal": "Personal models"}
MOST_POINTS = 500
MOST_NUMBERS = 20  # classes: numbers of more are too small to read
GOLDEN = 0.6180339887  # its multiples fill an interval evenly


def spread_plots(groups: Sequence[Group]) -> list[Plot]:
    """The figures that these runs have data for."""
    found = []
    if any(values_of(group, model) for group in groups for model in MODELS):
        text = (
            f"{groups[0].title} of each client on its own test samples in the last test, the "
            "clients of all seeds together. Boxes are quartiles, whiskers reach to 1.5 times "
            "their distance, points are clients."
        )
        title = f"{groups[0].title} of the clients"
        found.append(Plot("clients", title, text, lambda: _clients(groups)))
    if any(class_values(group, model) for group in groups for model in MODELS):
        text = "Accuracy in each class in percent, in the last test, mean over the seeds."
        title = "Accuracy in each class"
        found.append(Plot("class-accuracy", title, text, lambda: _classes(groups)))
    return found


def _clients(groups: Sequence[Group]) -> Figure:
    models = [model for model in MODELS if any(values_of(group, model) for group in groups)]
    mine = [group for group in groups if any(values_of(group, model) for model in models)]
    figure = new_figure(WIDTH, 1.0 + 0.42 * len(mine))
    panels = figure.subplots(1, len(models), sharex=True, sharey=True, squeeze=False)[0]
    percent = main_column("", groups).unit == "percent"
    for axes, model in zip(panels, models, strict=True):
        axes.set_title(TITLES[model])
        axes.set_xlabel(groups[0].main + (" (%)" if percent else ""))
        axes.grid(visible=False, axis="y")
        axes.grid(visible=True, axis="x")
        for at, group in enumerate(mine):
            values = np.array(values_of(group, model)) * (100 if percent else 1)
            if len(values):
                _box(axes, at, values, look(groups.index(group))[0])
    panels[0].set_yticks(range(len(mine)), [for_plot(group.label) for group in mine])
    panels[0].invert_yaxis()
    return figure


def _box(
    axes: Axes, at: int, values: np.ndarray[tuple[int], np.dtype[np.float64]], colour: str
) -> None:
    axes.boxplot(
        values,
        positions=[at],
        orientation="horizontal",
        widths=0.5,
        showfliers=len(values) > MOST_POINTS,
        patch_artist=True,
        boxprops={"facecolor": colour, "alpha": 0.25, "edgecolor": colour},
        medianprops={"color": INK, "lw": 1.4},
        whiskerprops={"color": colour},
        capprops={"color": colour},
        flierprops={"marker": ".", "markersize": 3, "markeredgecolor": colour},
    )
    if len(values) <= MOST_POINTS:
        away = (np.arange(len(values)) * GOLDEN % 1 - 0.5) * 0.36
        axes.scatter(np.sort(values), at + away, s=7, color=colour, alpha=0.6, lw=0, zorder=3)


def _classes(groups: Sequence[Group]) -> Figure:
    rows = [
        (model, group, values)
        for model in MODELS
        for group in groups
        if (values := class_values(group, model))
    ]
    models = list(dict.fromkeys(model for model, _, _ in rows))
    width = max(len(values) for _, _, values in rows)
    counts = [sum(model == one for one, _, _ in rows) for model in models]
    figure = new_figure(WIDTH, 0.5 + 0.3 * len(models) + 0.24 * len(rows))
    panels = figure.subplots(len(models), 1, squeeze=False, sharex=True, height_ratios=counts)
    for axes, model in zip(panels[:, 0], models, strict=True):
        mine = [(group, values) for one, group, values in rows if one == model]
        cells = np.full((len(mine), width), np.nan)
        for row, (_, values) in enumerate(mine):
            found = [np.nan if one is None else 100 * one.mean for one in values]
            cells[row, : len(found)] = found
        axes.set_title(TITLES[model])
        axes.imshow(cells, vmin=0, vmax=100, cmap="viridis", aspect="auto")
        axes.grid(visible=False)
        axes.set_yticks(range(len(mine)), [for_plot(group.label) for group, _ in mine])
        if width <= MOST_NUMBERS:
            axes.set_xticks(range(width))
            _numbers(axes, cells)
    panels[-1, 0].set_xlabel("class")
    return figure


def _numbers(axes: Axes, cells: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> None:
    for (row, column), value in np.ndenumerate(cells):
        if not np.isnan(value):
            colour = "black" if value > 60 else "white"
            axes.text(
                column, row, f"{value:.0f}", ha="center", va="center", color=colour, fontsize=7
            )
