"""PURE: the table of what differential privacy has cost each run."""

from __future__ import annotations

from collections.abc import Sequence

from fl_server.reports.groups import Group
from fl_server.reports.tables import Column, Table
from fl_server.watch.facts.lines import number_in


def privacy_table(groups: Sequence[Group]) -> Table | None:
    """Noise and epsilon of every run; None if no run has noise."""
    rows = []
    for run in (run for group in groups for run in group.runs):
        spent = [value for line in run.lines if (value := number_in(line, "epsilon"))]
        if spent:
            wanted = run.experiment.privacy
            words = (f"{wanted.clip:g}", f"{wanted.noise:g}", f"{wanted.delta:g}")
            rows.append((run.name, *words, wanted.sampling, f"{max(spent):.3g}"))
    if not rows:
        return None
    names = ("run", "clip", "noise", "delta", "sampling", "epsilon")
    note = (
        "Epsilon of all rounds, for the delta beside it, of the models that were published; "
        "losses, counts and other numbers that clients report are not covered by it."
    )
    columns = tuple(Column(name) for name in names)
    return Table("privacy", "Differential privacy", columns, tuple(rows), note)
