"""PURE: the tables about personal models: how good they are, and how soon."""

from __future__ import annotations

from collections.abc import Sequence

from fl_server.reports.groups import Group, Which, spread
from fl_server.reports.tables import Column, Table, Unit
from fl_server.run.summary import THRESHOLDS, reached

_MORE: tuple[tuple[str, str, Unit, Which], ...] = (
    ("accuracy_l1", "L1 pooled", "percent", "best"),
    ("accuracy_l2", "L2 pooled", "percent", "best"),
    ("mean_l1", "L1 Acc(L)", "percent", "best"),
    ("mean_l2", "L2 Acc(L)", "percent", "best"),
    ("union_l1", "L1 Acc(G)", "percent", "best"),
    ("union_l2", "L2 Acc(G)", "percent", "best"),
    ("sum_l1", "L1 Acc", "percent", "best"),
    ("sum_l2", "L2 Acc", "percent", "best"),
    ("rho_l1", "L1 rho", "count", "best"),
    ("rho_l2", "L2 rho", "count", "best"),
    ("below_l1", "L1 below", "count", "last"),
    ("below_l2", "L2 below", "count", "last"),
)


def personal(groups: Sequence[Group]) -> Table:
    """Everything that is known about personal models, best of run."""
    known = [more for more in _MORE if any(g.figure(more[0], "best") for g in groups)]
    columns = (Column("run"), *(Column(name, unit) for _, name, unit, _ in known))
    rows = tuple(
        (group.label, *(group.figure(metric, which) for metric, _, _, which in known))
        for group in groups
    )
    note = (
        "Best of run. L1 is before the client's own training of the round, L2 after it. "
        "Pooled: correct answers over samples of all clients. Acc(L): plain mean over clients, "
        "on their own samples. Acc(G): the same on samples of all clients. Acc: the sum of "
        "both in one round, at most 200. rho: number of clients above epsilon; below: of "
        "those that are not, in the last test."
    )
    return Table("personal", "Personal models", columns, rows, note)


def rounds_to_own(groups: Sequence[Group]) -> Table | None:
    """After how many rounds clients had an accuracy on their own samples, on average."""

    def measure(group: Group, threshold: float) -> list[float | None]:
        metric = group.personal.replace("accuracy", "mean")
        found = [reached(run.lines, metric, (threshold,)) for run in group.runs]
        return [float(reach[0].round) if reach else None for reach in found]

    known = [at for at in THRESHOLDS if any(any(measure(g, at)) for g in groups)]
    if not known:
        return None
    columns = (Column("run"), *(Column(f"{100 * at:g} %", "count") for at in known))
    rows = tuple(
        (group.label, *(spread(measure(group, at)) for at in known)) for group in groups
    )
    note = (
        "Acc(L), the plain mean over clients on their own samples, at the stage that is called "
        "personal: the first tested round; in brackets in how many of the runs."
    )
    title = "Rounds to a mean accuracy of clients"
    return Table("rounds-to-own", title, columns, rows, note)
