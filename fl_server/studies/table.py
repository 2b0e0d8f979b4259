"""PURE: the table of a study: what is printed, what came out here, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence

from fl_server.reports.groups import Group, Spread
from fl_server.reports.run_data import RunData
from fl_server.reports.tables import Cell, Column, Table, Unit
from fl_server.run.metrics.summary import reached
from fl_server.studies.runs import FoundRun
from fl_server.studies.study import FirstRound, Study, first_round

NOT_RUN = "not run"


def study_table(study: Study, found: Sequence[FoundRun]) -> Table:
    """A line for every row in every setting of these runs: published, here, difference."""
    columns = [Column("row")]
    if study.settings:
        columns.append(Column("setting"))
    printed = any(row.published for row in study.rows.values())
    for name, metric in study.columns.items():
        first = first_round(metric) is not None
        unit: Unit = "count" if first else "percent"
        if printed:
            columns += [Column(f"{name}: published", unit), Column("here", unit)]
            columns.append(Column("difference", "count" if first else "points"))
        else:
            columns.append(Column(name, unit))
    columns.append(Column("runs"))
    places = dict.fromkeys((one.run.row, one.run.setting) for one in found)
    rows: list[tuple[Cell, ...]] = []
    for row, setting in places:
        runs = [one for one in found if (one.run.row, one.run.setting) == (row, setting)]
        cells: list[Cell] = [study.rows[row].title or row]
        if study.settings:
            cells.append(study.settings[setting].title or setting)
        group = _group(runs)
        for name, metric in study.columns.items():
            beside = _beside(study, study.published(row, setting, name), group, metric)
            cells += beside if printed else beside[1:2]
        rows.append((*cells, state(runs)))
    key = f"study-{study.name}"
    return Table(key, study.title, tuple(columns), tuple(rows), _note(study, found))


def state(runs: Sequence[FoundRun]) -> str:
    """How far the runs of a line are: "3 of 5", "1 of 2, one at round 17 of 100"."""
    finished = sum(one.finished for one in runs)
    started = [one for one in runs if one.data is not None and not one.finished]
    if not finished and not started:
        return NOT_RUN
    text = f"{finished} of {len(runs)}"
    if started:
        last = max(started, key=lambda one: one.rounds)
        text += f", at round {last.rounds} of {last.run.rounds}"
    return text


def _group(runs: Sequence[FoundRun]) -> Group | None:
    """The finished runs of a line; without any, those that are on their way."""
    done = [one.data for one in runs if one.data is not None and one.finished]
    going = [one.data for one in runs if one.data is not None and one.data.lines]
    members = tuple(done or going)
    return Group("", members) if members else None


def _beside(
    study: Study, published: float | None, group: Group | None, metric: str
) -> list[Cell]:
    first = first_round(metric)
    ours: Spread | None = None
    if group is not None:
        ours = group.figure(metric, study.value) if first is None else _first(group, first)
    if published is None or ours is None:
        return [published, ours, None]
    difference = ours.mean - published
    return [published, ours, difference if first else 100 * difference]


def _first(group: Group, wanted: FirstRound) -> Spread | None:
    def measure(run: RunData) -> float | None:
        found = reached(run.lines, wanted.metric, (wanted.accuracy,))
        return float(found[0].round) if found else None

    return group.spread(measure)


def _note(study: Study, found: Sequence[FoundRun]) -> str:
    done = [one.data for one in found if one.data is not None and one.finished]
    tests = sorted({run.summary.tested_rounds for run in done})
    many = " / ".join(map(str, tests)) or "no"
    what = {
        "best": f"the best of {many} tests of each run",
        "last": "the last test of each run",
        "mean_last": "the mean of the last ten tests of each run",
    }
    missing = len(found) - len(done)
    left = f" {missing} of {len(found)} runs are missing or unfinished." if missing else ""
    note = f" {study.note}" if study.note else ""
    return (
        f"Published: {study.source}{note} Here: {what[study.value]}, mean ± standard deviation "
        f"over the seeds.{left}"
    )
