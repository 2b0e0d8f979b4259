"""PURE: the tables about boards: where their time went, and what went wrong."""

from __future__ import annotations

from collections.abc import Sequence

from fl_server.reports.groups import Group
from fl_server.reports.tables import Cell, Column, Table
from fl_server.reports.timing import FAULTS, faults, mean, times_of


def boards(groups: Sequence[Group]) -> Table | None:
    """Where the time of each board went."""
    rows: list[tuple[Cell, ...]] = []
    for group in groups:
        total = sum(run.summary.cost.seconds for run in group.runs)
        for name, times in times_of(group).items():
            busy = sum(times.trainings) / total if total else None
            around = (mean(times.waits), mean(times.trainings), mean(times.sendings))
            rows.append((group.label, name, len(times.trainings), *around, busy))
    if not rows:
        return None
    columns = (
        Column("run"),
        Column("board"),
        Column("trainings", "count"),
        Column("before", "seconds"),
        Column("training", "seconds"),
        Column("after", "seconds"),
        Column("busy", "percent"),
    )
    note = (
        "Mean per training. Before: from the opening of the round until the training starts "
        "(the model's way, other clients of the board). After: until the update is safe on the "
        "server. Busy: training time over the time of all rounds."
    )
    return Table("boards", "Time per phase and board", columns, tuple(rows), note)


def survived(groups: Sequence[Group]) -> Table | None:
    """What went wrong in the runs; only what happened at all has a column."""
    found = [[faults(run.events, run.lines) for run in group.runs] for group in groups]
    happened = [kind for kind in FAULTS if any(one[kind] for runs in found for one in runs)]
    if not happened:
        return None
    columns = (
        Column("run"),
        Column("finished"),
        *(Column(FAULTS[kind], "count") for kind in happened),
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            group.label,
            f"{sum(run.finished for run in group.runs)} of {len(group.runs)}",
            *(sum(one[kind] for one in runs) for kind in happened),
        )
        for group, runs in zip(groups, found, strict=True)
    )
    return Table("faults", "Faults survived", columns, rows, "Sums over the runs of a row.")
