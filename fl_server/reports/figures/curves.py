"""Metrics over rounds, and over what the rounds cost; baselines are dashed lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from common.tasks.metrics import LOSS
from fl_server.reports.axes import AXES, Axis, Points, along, unit_of
from fl_server.reports.figures.plot import INK, WIDTH, Plot, add_legend, look, mark, new_figure
from fl_server.reports.groups import Group
from fl_server.reports.output.escape import for_plot
from fl_server.reports.tables import main_column
from fl_server.reports.tables.clients import Of, stage_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curve: TypeAlias = Callable[[Group, str], Points]  # of a group and a metric
FEW = 5  # tests: of fewer even that of the untrained model is drawn
WIDE = 200.0  # losses that are so many times larger than others need a logarithmic scale


@dataclass(frozen=True, slots=True)
class Drawing:
    """What the panels of a figure have in common."""

    groups: Sequence[Group]
    curve: Curve
    scale: int  # 100: a share, drawn in percent
    bottom: str


def curve_plots(groups: Sequence[Group]) -> list[Plot]:
    """Main metric and loss over rounds, and the main metric over every cost that is known."""
    name, title = groups[0].main, groups[0].title
    lines = "Lines are means over the seeds, bands one standard deviation"
    dashed = "; dashed: trained in one place" if any(g.central for g in groups) else ""
    over_rounds = Drawing(groups, trained, _scale(groups), _rounds(groups))
    found = [
        Plot(name, title, f"{title} of global and personal models. {lines}{dashed}.",
             lambda: _figure(over_rounds, groups[0].main)),
    ]  # fmt: skip
    if name != LOSS and any(trained(group, f"{LOSS}_global") for group in groups):
        losses = Drawing(groups, trained, 1, _rounds(groups))
        text = f"Loss on test samples. {lines}{dashed}."
        found.append(Plot(LOSS, "Test loss", text, lambda: _figure(losses, LOSS)))
    return found + [
        Plot(
            f"over-{axis.key}",
            f"{title} over {axis.name}",
            f"{title} over {axis.name}, up to each test. {lines}; the place of a test is "
            f"its mean over the seeds, too{dashed}.",
            partial(_over, groups, axis),
        )
        for axis in AXES
        if any(along(group, group.shared, axis) for group in groups)
    ]


def trained(group: Group, metric: str) -> Points:
    """A metric over the rounds, without the untrained model if there is enough else."""
    found: Points = list(group.curve(metric))
    return [point for point in found if point[0] > 0] if len(found) > FEW else found


def _over(groups: Sequence[Group], axis: Axis) -> Figure:
    largest = max(
        (at for group in groups for at, _ in along(group, group.shared, axis)), default=0.0
    )
    unit, size = unit_of(axis, largest)

    def curve(group: Group, metric: str) -> Points:
        points = along(group, metric, axis)
        first = 1 if len(points) > FEW and group.curve(metric)[0][0] == 0 else 0
        return [(at / size, found) for at, found in points[first:]]

    return _figure(
        Drawing(groups, curve, _scale(groups), f"{axis.name} ({unit})"), groups[0].main
    )


def _scale(groups: Sequence[Group]) -> int:
    return 100 if main_column("", groups).unit == "percent" else 1


def _rounds(groups: Sequence[Group]) -> str:
    return "epoch" if all(group.central for group in groups) else "round"


def _figure(drawing: Drawing, metric: str) -> Figure:
    """A panel for the global model, and one for personal models if they were tested."""
    stages = [("Global model", partial(_metric, metric, "global"))]
    personal = partial(_metric, metric, "personal")
    if any(drawing.curve(group, personal(group)) for group in drawing.groups):
        stages.append(("Personal models", personal))
    figure = new_figure(WIDTH if len(stages) > 1 else 0.6 * WIDTH, 2.9)
    panels = figure.subplots(1, len(stages), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (title, name) in zip(panels, stages, strict=True):
        axes.set_title(title)
        _panel(axes, drawing, name)
    panels[0].set_ylabel(_axis_label(metric, drawing.scale))
    if metric == LOSS and _is_wide(drawing, [name for _, name in stages]):
        panels[0].set_yscale("log")
    add_legend(figure, panels[0], drawing.groups)
    return figure


def _metric(name: str, model: Of, group: Group) -> str:
    return f"{name}_{stage_of(group, model)}"


def _axis_label(metric: str, scale: int) -> str:
    words = "test loss" if metric == LOSS else metric.replace("_", " ")
    return f"{words} (%)" if scale > 1 else words


def _is_wide(drawing: Drawing, names: Sequence[Callable[[Group], str]]) -> bool:
    found = [
        middle.mean
        for group in drawing.groups
        for name in names
        for _, middle in drawing.curve(group, name(group))
    ]
    return bool(found) and min(found) > 0 and max(found) > WIDE * min(found)


def _panel(axes: Axes, drawing: Drawing, name: Callable[[Group], str]) -> None:
    axes.set_xlabel(drawing.bottom)
    if drawing.bottom in ("round", "epoch"):
        axes.locator_params(axis="x", integer=True)
    only_central = all(group.central for group in drawing.groups)
    for at, group in enumerate(drawing.groups):
        if group.central and not only_central:
            _dashed(axes, group, drawing.scale, name(group))
        else:
            _line(axes, at, group, drawing, name(group))
    if drawing.bottom not in ("round", "epoch"):
        axes.set_xlim(left=0)  # when all is drawn: from then on the right end stays


def _line(axes: Axes, at: int, group: Group, drawing: Drawing, metric: str) -> None:
    points = drawing.curve(group, metric)
    places = [place for place, _ in points]
    middle = np.array([drawing.scale * found.mean for _, found in points])
    spread = np.array([drawing.scale * (found.std or 0.0) for _, found in points])
    colour, shade = look(at)
    marker, every = mark(at, len(points))
    axes.plot(
        places,
        middle,
        shade,
        color=colour,
        label=for_plot(group.label),
        marker=marker,
        markevery=every,
    )
    if spread.any():
        top = 100 if drawing.scale > 1 else np.inf
        high = np.minimum(middle + spread, top)
        axes.fill_between(places, middle - spread, high, color=colour, alpha=0.15, lw=0)


def _dashed(axes: Axes, group: Group, scale: int, metric: str) -> None:
    """A baseline: what its model has in the end, where others may come to in any round."""
    stem = metric.rpartition("_")[0]
    found = group.figure(f"{stem}_global", "last")
    if found is not None:
        label = for_plot(group.label)
        axes.axhline(scale * found.mean, ls="--", lw=1.2, color=INK, label=label)
