"""Plots over settings instead of rounds, for groups that differ in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from common.experiment.resolve import participants_of
from fl_server.reports.figures.plot import WIDTH, Plot, add_legend, look, mark, new_figure
from fl_server.reports.groups import Group, settings_of
from fl_server.reports.output.escape import for_plot
from fl_server.reports.run_data import RunData
from fl_server.rounds.selection import chances_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLIENTS = "data.clients"
HEAT_MAP = ("selection.rate", "data.alpha")


def setting_plots(groups: Sequence[Group]) -> list[Plot]:
    """The plots that these groups have data for."""
    found = []
    if len(_values(groups, CLIENTS)) > 1:
        text = (
            "log10(g/p), best global over best personal accuracy: 0 if both are equally good."
        )
        title = "Global against personal, over the number of clients"
        found.append(Plot("overall", title, text, lambda: _overall(groups)))
    share = groups[0].runs[0].summary.share
    if share and all(len(_values(groups, key)) > 1 for key in HEAT_MAP):
        text = "Global accuracy in the last test, in percent; mean over the seeds."
        found.append(Plot("heat-map", "Heat maps", text, lambda: _heat_maps(groups)))
    if any(group.curve(_below(group)) for group in groups):
        text = "Clients whose own accuracy is not above epsilon; mean over the seeds."
        title = "Clients below epsilon"
        found.append(Plot("below", title, text, lambda: _curves(groups, _below)))
    if any(group.runs[0].experiment.selection.gamma for group in groups):
        text = "How likely each client is drawn for a round, from the likeliest (first seed)."
        title = "Chances to be selected"
        found.append(Plot("chances", title, text, lambda: _chances(groups)))
    return found


def _values(groups: Sequence[Group], key: str) -> list[float]:
    found = {settings_of(group.runs[0].experiment).get(key) for group in groups}
    return sorted(value for value in found if isinstance(value, int | float))


def _below(group: Group) -> str:
    return group.personal.replace("accuracy", "below")


def _curves(groups: Sequence[Group], metric: Callable[[Group], str]) -> Figure:
    figure = new_figure(WIDTH, 2.9)
    axes = figure.subplots()
    axes.set_xlabel("round")
    axes.set_ylabel("clients")
    for at, group in enumerate(groups):
        colour, shade = look(at)
        curve = group.curve(metric(group))
        rounds, middle = [one for one, _ in curve], [found.mean for _, found in curve]
        marker, every = mark(at, len(curve))
        axes.plot(
            rounds,
            middle,
            shade,
            color=colour,
            label=for_plot(group.label),
            marker=marker,
            markevery=every,
        )
    add_legend(figure, axes, groups)
    return figure


def _overall(groups: Sequence[Group]) -> Figure:
    figure = new_figure(WIDTH, 2.9)
    axes = figure.subplots()
    axes.set_xlabel("clients")
    axes.set_ylabel("log10(g/p)")
    names = list(dict.fromkeys(group.runs[0].experiment.algorithm.name for group in groups))
    for at, name in enumerate(names):
        mine = [g for g in groups if g.runs[0].experiment.algorithm.name == name]
        points = sorted(
            (group.runs[0].experiment.data.clients, found.mean)
            for group in mine
            if (found := group.spread(_ratio)) is not None
        )
        colour, shade = look(at)
        xs, ys = [x for x, _ in points], [y for _, y in points]
        axes.plot(xs, ys, shade, color=colour, marker="o", label=for_plot(name))
    add_legend(figure, axes, names)
    return figure


def _ratio(run: RunData) -> float | None:
    return run.summary.overall.value if run.summary.overall else None


def _heat_maps(groups: Sequence[Group]) -> Figure:
    """A panel for every combination of the settings that are no axis."""
    x, y = HEAT_MAP
    across, down = _values(groups, x), _values(groups, y)
    panels: dict[str, list[Group]] = {}
    for group in groups:
        experiment = group.runs[0].experiment
        name = f"{experiment.algorithm.name}, E = {experiment.training.epochs}"
        panels.setdefault(name, []).append(group)
    columns = min(4, len(panels))
    lines = -(-len(panels) // columns)
    figure = new_figure(2.4 * columns, 0.9 + 1.9 * lines)
    grid = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes, (name, mine) in zip(grid, panels.items(), strict=False):
        cells = np.full((len(down), len(across)), np.nan)
        for group in mine:
            settings = settings_of(group.runs[0].experiment)
            last = group.figure(group.shared, "last")
            if last is not None:
                place = down.index(settings[y]), across.index(settings[x])  # type: ignore[arg-type]
                cells[place] = 100 * last.mean
        axes.imshow(cells, vmin=0, vmax=100, cmap="viridis", aspect="auto")
        axes.grid(visible=False)
        axes.set_title(for_plot(name), fontsize=8)
        axes.set_xticks(range(len(across)), [f"{value:g}" for value in across], fontsize=7)
        axes.set_yticks(range(len(down)), [f"{value:g}" for value in down], fontsize=7)
        for (row, column), value in np.ndenumerate(cells):
            if not np.isnan(value):
                colour = "black" if value > 60 else "white"
                text = f"{value:.1f}"
                axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=7)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    figure.supxlabel(x, fontsize=8)
    figure.supylabel(y, fontsize=8)
    return figure


def _chances(groups: Sequence[Group]) -> Figure:
    figure = new_figure(WIDTH, 2.9)
    axes = figure.subplots()
    axes.set_xlabel("client, from the likeliest")
    axes.set_ylabel("chance in %")
    shown: dict[tuple[float, int], str] = {}
    for group in groups:
        experiment = group.runs[0].experiment
        gamma, participants = experiment.selection.gamma, participants_of(experiment)
        if (gamma, len(participants)) in shown:
            continue
        label = f"gamma = {gamma:g}" if gamma else "the same for all"
        shown[gamma, len(participants)] = label
        found = chances_of(participants, gamma=gamma, seed=group.runs[0].seed)
        even = 1 / len(participants)
        values = sorted((found.get(client, even) for client in participants), reverse=True)
        colour, shade = look(len(shown) - 1)
        axes.plot(100 * np.array(values), shade, color=colour, label=label)
    add_legend(figure, axes, list(shown))
    return figure
