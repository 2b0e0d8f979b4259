"""PURE: the table that says whether the best row is better, or only ahead."""

from __future__ import annotations

from collections.abc import Sequence

from fl_server.reports.groups import Group
from fl_server.reports.significance import ALPHA, MEASURES, against_others, leader
from fl_server.reports.statistics import FEWEST
from fl_server.reports.tables import Cell, Column, Table, main_column


def differences_table(groups: Sequence[Group]) -> Table | None:
    """The leader of each column against every other row; None if there are too few seeds."""
    rows: list[tuple[Cell, ...]] = []
    share = main_column("", groups).unit == "percent"
    scale = 100 if share else 1
    for name, kind, which in MEASURES:
        first = leader(groups, kind, which)
        for at, test, p in against_others(groups, kind, which):
            if first is not None and test is not None and p is not None:
                points, half = scale * test.mean, scale * test.half_width
                form = "+.2f" if scale > 1 else "+.4g"
                between = f"{points - half:{form}} to {points + half:{form}}"
                verdict = "better" if p < ALPHA else "not told apart"
                rows.append(
                    (
                        *(name, groups[first].label, groups[at].label, test.pairs),
                        *(points, between, f"{p:.3f}" if p >= 0.001 else "< 0.001", verdict),
                    )
                )
    if not rows:
        return None
    columns = (
        Column("number"),
        Column("ahead"),
        Column("behind"),
        Column("seeds", "count"),
        Column("difference", "points" if share else "measure"),
        Column("95 % interval"),
        Column("p"),
        Column("verdict"),
    )
    note = (
        f"Differences{' in percentage points' if share else ''}, paired by seed: mean, its "
        "confidence interval, and "
        "Student's two-sided test, p corrected by Holm's method for the rows of each number. "
        f"Only rows with at least {FEWEST} seeds in common are tested; the test takes the "
        "differences to be normally distributed, which a few seeds cannot show."
    )
    return Table(
        "differences", "Who is ahead, and whether it shows", columns, tuple(rows), note
    )
