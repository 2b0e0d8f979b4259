"""PURE: how a metric is spread over clients and over classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from fl_server.reports.groups import Group, Spread, spread
from fl_server.reports.tables import Cell, Column, Table, main_column

Of: TypeAlias = Literal["global", "personal"]
MODELS: tuple[Of, ...] = ("global", "personal")
SHARES = (("worst", 0), ("worst 10 %", 10), ("median", 50), ("best 10 %", 90), ("best", 100))


def values_of(group: Group, model: Of) -> list[float]:
    """The main metric of every client in the last test of every run."""
    return [
        value for run in group.runs for value in run.clients.get(stage_of(group, model), ())
    ]


def stage_of(group: Group, model: Of) -> str:
    """The stage whose numbers are those of the global model, or of personal ones."""
    name = group.shared if model == "global" else group.personal
    return name.rpartition("_")[2]


def clients_table(groups: Sequence[Group]) -> Table | None:
    """How the main metric is spread over clients, in the last test."""
    lower = groups[0].runs[0].summary.lower
    rows: list[tuple[Cell, ...]] = []
    for model in MODELS:
        for group in groups:
            found = values_of(group, model)
            if found:
                percents = [100 - at if lower else at for _, at in SHARES]
                places = map(float, np.percentile(found, percents))
                std = float(np.std(found))
                rows.append((group.label, model, len(found), *places, std))
    if not rows:
        return None
    columns = (
        Column("run"),
        Column("model"),
        Column("clients", "count"),
        *(main_column(name, groups) for name, _ in SHARES),
        main_column("deviation", groups),
    )
    note = (
        f"{groups[0].title} of each client on its own test samples in the last test, the "
        "clients of all seeds together; worst 10 %: a tenth of the clients is not better. The "
        "deviation is over clients, and small if all fare alike."
    )
    return Table("clients", "Distribution over clients", columns, tuple(rows), note)


def class_values(group: Group, model: Of) -> list[Spread | None]:
    """The accuracy in each class in the last test that has it; empty if none was recorded."""
    name = f"class_accuracy_{stage_of(group, model)}"
    found = []
    for run in group.runs:
        tested = [line.tests[name] for line in run.lines if line.tests.get(name)]
        if tested and isinstance(tested[-1], list):
            found.append([one if isinstance(one, float | int) else None for one in tested[-1]])
    return [spread(numbers) for numbers in zip(*found, strict=True)]


def classes_table(groups: Sequence[Group]) -> Table | None:
    """The accuracy in each class; None if `class_accuracy` is not among the metrics."""
    known = [
        (group.label, model, values)
        for model in MODELS
        for group in groups
        if (values := class_values(group, model))
    ]
    if not known:
        return None
    width = max(len(values) for _, _, values in known)
    columns = (
        Column("run"),
        Column("model"),
        *(Column(str(n), "percent") for n in range(width)),
    )
    rows = tuple(
        (label, model, *values, *[None] * (width - len(values)))
        for label, model, values in known
    )
    note = (
        "Share of the test samples of each class that are answered rightly, over all clients "
        "together, in the last test; mean ± standard deviation over the seeds."
    )
    return Table("class-accuracy", "Accuracy in each class", columns, rows, note)
