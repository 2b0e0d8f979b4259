"""PURE: our numbers beside published ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from common.tasks.task import PERSONAL, shown_metric
from fl_server.reports.groups import Group, settings_of
from fl_server.reports.reference import Reference
from fl_server.reports.tables import Cell, Column, Table, Unit, main_column


def comparison(groups: Sequence[Group], reference: Reference) -> Table:
    """Published numbers, ours, and the difference."""
    columns = [Column("row")]
    for name in reference.columns:
        column = _column(groups, reference.columns[name])
        columns += [replace(column, name=f"{name}: reference"), replace(column, name="ours")]
        columns.append(
            Column("difference", "points" if column.unit == "percent" else "measure")
        )
    rows: list[tuple[Cell, ...]] = []
    for row, numbers in reference.rows.items():
        mine: list[Group | None] = [g for g in groups if _matches(g, reference.match, row)]
        for group in mine or [None]:
            cells: list[Cell] = [row if len(mine) < 2 or group is None else group.label]
            for name, metric in reference.columns.items():
                unit = _column(groups, metric).unit
                cells += _beside(numbers.get(name), group, metric, reference, unit)
            rows.append(tuple(cells))
    ours = [
        g for g in groups if any(_matches(g, reference.match, row) for row in reference.rows)
    ]
    rounds = sorted({run.summary.rounds for group in ours for run in group.runs})
    seeds = sorted({len(group.runs) for group in ours})
    tests = _many(sorted({run.summary.tested_rounds for group in ours for run in group.runs}))
    value = {
        "best": f"best of {tests} tests",
        "last": "last test",
        "mean_last": "mean of the last ten tests",
    }
    note = (
        f"Reference: {reference.source} {reference.note} Ours: {value[reference.value]}, "
        f"{_many(rounds)} rounds, {_many(seeds)} seed(s). Differences of "
        "shares are in percentage points."
    )
    return Table("comparison", reference.title, tuple(columns), tuple(rows), note)


def _column(groups: Sequence[Group], metric: str) -> Column:
    """How a metric is shown; means over clients are of the main metric."""
    stem = metric.rpartition("_")[0]
    if stem in PERSONAL:
        return Column("", "count") if stem == "rho" else main_column("", groups)
    found = shown_metric(stem, ())
    return Column("", "percent" if found.share else "measure")


def _many(numbers: Sequence[int]) -> str:
    return " / ".join(map(str, numbers)) or "no"


def _matches(group: Group, key: str, value: str) -> bool:
    return str(settings_of(group.runs[0].experiment).get(key)) == value


def _beside(
    published: float | None,
    group: Group | None,
    metric: str,
    reference: Reference,
    unit: Unit,
) -> list[Cell]:
    ours = None if group is None else group.figure(metric, reference.value)
    scale = 100 if unit == "percent" else 1
    theirs = None if published is None else published / scale
    if theirs is None or ours is None:
        return [theirs, ours, None]
    return [theirs, ours, scale * (ours.mean - theirs)]
