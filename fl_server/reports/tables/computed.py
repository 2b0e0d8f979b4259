"""PURE: the table of what computed the clients of each run."""

from __future__ import annotations

from collections.abc import Sequence

from common.ids import brief_ids
from fl_server.reports.groups import Group
from fl_server.reports.tables import Column, Table


def computed_table(groups: Sequence[Group]) -> Table | None:
    """CPU, torch and version of each client; None if no run knows."""
    rows = tuple(
        (run.name, text, brief_ids(clients))
        for group in groups
        for run in group.runs
        for text, clients in run.computed.items()
    )
    if not rows:
        return None
    columns = (Column("run"), Column("CPU, torch, version"), Column("clients"))
    note = (
        "Runs have the same bits only if each client was computed by the same CPU and torch; "
        "a client in two rows of a run was moved, or its board was changed."
    )
    return Table("computed", "What computed the clients", columns, rows, note)
