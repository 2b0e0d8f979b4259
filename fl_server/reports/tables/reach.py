"""PURE: what it took to reach a level of the main metric: rounds, bytes, time, energy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from fl_server.reports.groups import Group, spread
from fl_server.reports.run_data import RunData
from fl_server.reports.tables import Column, Table, Unit, main_column
from fl_server.run.metrics.summary import Reach


def rounds_to(groups: Sequence[Group], which: Literal["global", "personal"]) -> Table | None:
    """After how many rounds a level of the main metric was reached for the first time."""
    return _to_reach(
        groups,
        which,
        key=f"rounds-to-{which}",
        title=f"Rounds to a {which} {groups[0].main}",
        unit="count",
        measure=lambda reach: reach.round,
        note="The first tested round; in brackets in how many of the runs it was reached.",
    )


def bytes_to(groups: Sequence[Group]) -> Table | None:
    """How much was sent, both ways, until a level of the main metric was reached."""
    return _to_reach(
        groups,
        "global",
        key="bytes-to-global",
        title=f"Traffic to a global {groups[0].main}",
        unit="bytes",
        measure=lambda reach: reach.bytes_up + reach.bytes_down,
        note="Bytes up and down until the first test that is as good.",
    )


def time_to(groups: Sequence[Group]) -> Table | None:
    """How long all rounds took until a level of the main metric was reached."""
    return _to_reach(
        groups,
        "global",
        key="time-to-global",
        title=f"Time to a global {groups[0].main}",
        unit="seconds",
        measure=lambda reach: reach.seconds,
        note="Seconds of the rounds until the first test that is as good; of a fleet in "
        "virtual time, virtual ones. In brackets in how many of the runs it was reached.",
    )


def energy_to(groups: Sequence[Group]) -> Table | None:
    """How much energy was spent until a level of the main metric was reached."""
    if all(run.summary.cost.energy_joules is None for g in groups for run in g.runs):
        return None
    return _to_reach(
        groups,
        "global",
        key="energy-to-global",
        title=f"Energy to a global {groups[0].main}",
        unit="joules",
        measure=lambda reach: reach.energy_joules,
        note="Until the first test that is as good: joules of trainings, where boards measure "
        "them; of a fleet in virtual time also of sending, receiving and waiting.",
    )


def _to_reach(
    groups: Sequence[Group],
    which: Literal["global", "personal"],
    *,
    key: str,
    title: str,
    unit: Unit,
    measure: Callable[[Reach], float | None],
    note: str,
) -> Table | None:
    def found(run: RunData) -> dict[float, float | None]:
        summary = run.summary
        reached = summary.reached_global if which == "global" else summary.reached_personal
        return {reach.level: measure(reach) for reach in reached}

    levels = sorted(
        {at for group in groups for run in group.runs for at in found(run)},
        reverse=groups[0].runs[0].summary.lower,
    )
    if not levels:
        return None
    names = [
        f"{100 * at:g} %" if main_column("", groups).unit == "percent" else f"{at:g}"
        for at in levels
    ]
    columns = (Column("run"), *(Column(name, unit) for name in names))
    rows = tuple(
        (
            group.label,
            *(spread([found(run).get(at) for run in group.runs]) for at in levels),
        )
        for group in groups
    )
    return Table(key, title, columns, rows, note)
