"""The plots of a report, by matplotlib (the extra `plots`): one figure, saved in three ways.

For the page a plot is SVG without colours of its own for text and lines, so that it follows the
page from light to dark.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from common.errors import UsageError
from fl_server.reports.groups import Group
from fl_server.reports.output.escape import for_html, for_plot
from fl_server.reports.tables import main_column
from fl_server.reports.timing import mean, times_of
from fl_server.run.metrics.summary import values

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, GRID = "#2b3038", "#d8dce2"  # nothing else in a plot has these colours
COLOURS = (
    *("#3a7bd5", "#e0792f", "#2a9d6e", "#c2478f", "#8467d7", "#b3921d"),
    *("#d14b5a", "#2fa3b5", "#8d6e4a", "#76808f"),
)
SHADES = ("-", "--", ":", "-.")

Counts: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot, its file name, and what it shows."""

    key: str
    title: str
    caption: str
    draw: Callable[[], Figure]


def plots_of(groups: Sequence[Group], counts: Counts | None) -> list[Plot]:
    """The plots that these runs have data for."""
    name = groups[0].main
    found = [
        Plot(
            name,
            groups[0].title,
            "Lines are means over the seeds, bands one standard deviation.",
            lambda: _curves(groups),
        ),
        Plot(
            "traffic",
            f"{groups[0].title} over traffic",
            f"Global {name} over all bytes sent so far, both ways; one line per run.",
            lambda: _traffic(groups),
        ),
    ]
    if any(times_of(group) for group in groups):
        text = "Mean seconds per training of a board: before, during and after it."
        found.append(Plot("boards", "Time per board", text, lambda: _boards(groups)))
    if counts is not None:
        text = "Samples of each class that the clients have (first seed)."
        found.append(Plot("classes", "Class distribution", text, lambda: _classes(counts)))
    return found


def check_matplotlib() -> None:
    """UsageError at once, not after a minute, if the package for plots is not there."""
    try:
        import matplotlib as _  # noqa: F401 - heavy, and only reports with plots need it
    except ImportError as error:
        raise UsageError(
            "a report with plots needs matplotlib: pip install 'fedbed[plots]'; without -o the "
            "tables are printed"
        ) from error


def save(plot: Plot, folder: Path) -> str:
    """Write <key>.png and <key>.svg; returns the SVG for the page."""
    with _style(plot.key):
        figure = plot.draw()
        figure.savefig(folder / f"{plot.key}.png", dpi=150, facecolor="white")
        quiet = {"Date": None, "Creator": None}
        figure.savefig(folder / f"{plot.key}.svg", facecolor="white", metadata=quiet)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata=quiet)
    return for_page(out.getvalue(), plot.title)


def for_page(svg: str, title: str) -> str:
    """SVG to stand inside of HTML: no prolog, no addresses, the page's colours and font."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg)
    svg = re.sub(r'(<svg[^>]*?)\swidth="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?)\sheight="[^"]*"', r"\1", svg, count=1)
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{for_html(title)}"', 1)
    svg = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, sans-serif", svg)
    return svg.replace(INK, "var(--ink)").replace(GRID, "var(--grid)").strip()


@contextmanager
def _style(salt: str) -> Iterator[None]:
    import matplotlib as mpl  # heavy, and only reports with plots need it

    settings: dict[Any, Any] = {  # matplotlib's own names
        "svg.fonttype": "none",
        "svg.hashsalt": salt,  # the same runs give the same file
        "font.family": "DejaVu Sans",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": GRID,
        "axes.labelcolor": INK,
        "axes.titlecolor": INK,
        "axes.titlesize": 10,
        "axes.titlelocation": "left",
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.axisbelow": True,
        "grid.color": GRID,
        "grid.linewidth": 0.6,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "xtick.major.size": 0,
        "ytick.major.size": 0,
        "legend.frameon": False,
        "figure.constrained_layout.use": True,
    }
    with mpl.rc_context(settings):
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches."""
    from matplotlib.figure import Figure  # not pyplot: no window system, no global state

    return Figure(figsize=(width, height))


def look(at: int) -> tuple[str, str]:
    """Colour and dashes of the n-th line."""
    return COLOURS[at % len(COLOURS)], SHADES[at // len(COLOURS) % len(SHADES)]


def _curves(groups: Sequence[Group]) -> Figure:
    figure = new_figure(9.2, 3.9)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    _panel(left, groups, "Global model", lambda group: group.shared)
    _panel(right, groups, "Personal models", lambda group: group.personal)
    left.set_ylabel(_axis(groups))
    add_legend(figure, left, groups)
    return figure


def _panel(
    axes: Axes, groups: Sequence[Group], title: str, metric: Callable[[Group], str]
) -> None:
    axes.set_title(title)
    axes.set_xlabel("round")
    axes.locator_params(axis="x", integer=True)
    for at, group in enumerate(groups):
        colour, shade = look(at)
        curve = group.curve(metric(group))
        rounds = [round_number for round_number, _ in curve]
        unit = _unit(groups)
        middle = np.array([unit * found.mean for _, found in curve])
        spread = np.array([unit * (found.std or 0.0) for _, found in curve])
        mark = "o" if len(curve) == 1 else None
        axes.plot(
            rounds,
            middle,
            shade,
            color=colour,
            lw=1.6,
            label=for_plot(group.label),
            marker=mark,
        )
        if spread.any():
            low, high = (
                middle - spread,
                np.minimum(middle + spread, 100 if unit > 1 else np.inf),
            )
            axes.fill_between(rounds, low, high, color=colour, alpha=0.15, lw=0)


def _unit(groups: Sequence[Group]) -> int:
    """Shares are drawn in percent."""
    return 100 if main_column("", groups).unit == "percent" else 1


def _axis(groups: Sequence[Group]) -> str:
    return groups[0].main + (" in %" if _unit(groups) > 1 else "")


def add_legend(figure: Figure, axes: Axes, lines: Sequence[object]) -> None:
    """Names of the lines, below the figure, if there are several."""
    if len(lines) > 1:
        handles, labels = axes.get_legend_handles_labels()
        columns = min(5, len(lines))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=8)


def _traffic(groups: Sequence[Group]) -> Figure:
    figure = new_figure(9.2, 3.6)
    axes = figure.subplots()
    axes.set_xlabel("traffic in MB")
    axes.set_ylabel(f"global {_axis(groups)}")
    for at, group in enumerate(groups):
        colour, shade = look(at)
        for nth, run in enumerate(group.runs):
            sent, total = {}, 0.0
            for line in run.lines:
                total += (line.bytes_up or 0) + (line.bytes_down or 0)
                sent[line.round] = total / 1e6
            points = [
                (sent[round_number], _unit(groups) * value)
                for round_number, value in values(run.lines, group.shared)
            ]
            label = for_plot(group.label) if nth == 0 else None
            axes.plot(*zip(*points, strict=True), shade, color=colour, lw=1.3, label=label)
    add_legend(figure, axes, groups)
    return figure


def _boards(groups: Sequence[Group]) -> Figure:
    rows = [
        (f"{group.label} · {name}" if len(groups) > 1 else name, times)
        for group in groups
        for name, times in times_of(group).items()
    ]
    figure = new_figure(9.2, 1.3 + 0.24 * len(rows))
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
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _classes(counts: Counts) -> Figure:
    figure = new_figure(9.2, 3.3)
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
        figure.legend(loc="outside right upper", fontsize=8, title="class")
    return figure
