"""A figure and how it is saved: for a paper (PDF), for slides (PNG), and for the page (SVG).

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
from typing import TYPE_CHECKING, Any

from common.errors import UsageError
from fl_server.reports.output.escape import for_html

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, GRID = "#2b3038", "#d8dce2"  # nothing else in a plot has these colours
COLOURS = (
    *("#3a7bd5", "#e0792f", "#2a9d6e", "#c2478f", "#8467d7", "#b3921d"),
    *("#d14b5a", "#2fa3b5", "#8d6e4a", "#76808f"),
)
SHADES = ("-", "--", ":", "-.")
MARKS = "os^Dv*P<X>"  # so that lines differ in print without colours, too
WIDTH = 7.0  # inches: a text of two columns
ENDINGS = ("pdf", "png", "svg")
_QUIET: dict[str, dict[str, str | None]] = {  # no time in it: the same runs give the same file
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {},
    "svg": {"Date": None, "Creator": None},
}


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot, its file name, and what it shows."""

    key: str
    title: str
    caption: str
    draw: Callable[[], Figure]


def check_matplotlib() -> None:
    """UsageError at once, not after a minute, if the package for plots is not there."""
    try:
        import matplotlib as _  # noqa: F401 - heavy, and only reports with plots need it
    except ImportError as error:
        raise UsageError(
            "a report with plots needs matplotlib: pip install 'fedbed[plots]'; without -o the "
            "tables are printed"
        ) from error


def save(plot: Plot, folder: Path, endings: Sequence[str] = ENDINGS) -> str:
    """Write <key>.pdf, .png and .svg; returns the SVG for the page."""
    with _style(plot.key):
        figure = plot.draw()
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # once is enough
        for ending in endings:
            figure.savefig(
                folder / f"{plot.key}.{ending}",
                dpi=200,
                facecolor="white",
                metadata=_QUIET[ending],
            )
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata=_QUIET["svg"])
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
        "font.size": 8,
        "pdf.fonttype": 42,  # letters stay letters: publishers refuse the others
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": GRID,
        "axes.labelcolor": INK,
        "axes.titlecolor": INK,
        "axes.titlesize": 9,
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
        "lines.linewidth": 1.4,
        "lines.markersize": 3.5,
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


def mark(at: int, points: int) -> tuple[str, tuple[int, int]]:
    """The mark of the n-th line, and at which of its points: about eight of them."""
    every = max(1, points // 8)
    return MARKS[at % len(MARKS)], (at % every, every)


def add_legend(figure: Figure, axes: Axes, lines: Sequence[object]) -> None:
    """Names of the lines, below the figure, if there are several."""
    if len(lines) > 1:
        handles, labels = axes.get_legend_handles_labels()
        wide = max(len(label) for label in labels) + 6
        columns = max(1, min(len(labels), int(17 * figure.get_figwidth()) // wide))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns)
