"""All figures that a report may have, and the LaTeX that takes them into a paper."""

from __future__ import annotations

from collections.abc import Sequence

from fl_server.reports.figures.curves import curve_plots
from fl_server.reports.figures.parts import Counts, part_plots
from fl_server.reports.figures.plot import Plot
from fl_server.reports.figures.settings import setting_plots
from fl_server.reports.figures.spreads import spread_plots
from fl_server.reports.groups import Group
from fl_server.reports.output.escape import for_latex


def plots_of(groups: Sequence[Group], counts: Counts | None = None) -> list[Plot]:
    """The figures that these runs have data for."""
    federated = [group for group in groups if not group.central]
    curves = curve_plots(groups)
    if not federated:
        return curves
    return [
        *curves,
        *spread_plots(groups),
        *part_plots(federated, counts),
        *setting_plots(federated),
    ]


def figures_tex(plots: Sequence[Plot]) -> str:
    """A figure environment for every plot, to be copied or taken in by \\input."""
    head = (
        "% Needs \\usepackage{graphicx}; from another folder also \\graphicspath{{report/}}.\n"
    )
    return head + "".join(
        f"\n\\begin{{figure}}[t]\n  \\centering\n"
        f"  \\includegraphics[width=\\linewidth]{{{plot.key}.pdf}}\n"
        f"  \\caption{{{for_latex(plot.caption)}}}\n  \\label{{fig:{plot.key}}}\n"
        "\\end{figure}\n"
        for plot in plots
    )
