"""PURE: the tables about personal models: how good they are, and how soon."""

from __future__ import annotations

from collections.abc import Sequence

from common.tasks.task import SHARE_LEVELS
from fl_server.reports.groups import Group, Which, spread
from fl_server.reports.tables import Column, Table, main_column
from fl_server.run.metrics.summary import reached

_MORE: tuple[tuple[str, str, Which], ...] = (
    ("{main}_l1", "L1 pooled", "best"),
    ("{main}_l2", "L2 pooled", "best"),
    ("mean_l1", "L1 Acc(L)", "best"),
    ("mean_l2", "L2 Acc(L)", "best"),
    ("union_l1", "L1 Acc(G)", "best"),
    ("union_l2", "L2 Acc(G)", "best"),
    ("sum_l1", "L1 Acc", "best"),
    ("sum_l2", "L2 Acc", "best"),
    ("rho_l1", "L1 rho", "best"),
    ("rho_l2", "L2 rho", "best"),
    ("below_l1", "L1 below", "last"),
    ("below_l2", "L2 below", "last"),
)


def personal(groups: Sequence[Group]) -> Table:
    """Everything that is known about personal models, best of run."""
    more = [(metric.format(main=groups[0].main), name, which) for metric, name, which in _MORE]
    known = [one for one in more if any(group.figure(one[0], "best") for group in groups)]
    columns = [Column("run")]
    for metric, name, _ in known:
        counts = metric.startswith(("rho", "below"))
        columns.append(Column(name, "count") if counts else main_column(name, groups))
    rows = tuple(
        (group.label, *(group.figure(metric, which) for metric, _, which in known))
        for group in groups
    )
    note = (
        "Best of run. L1 is before the client's own training of the round, L2 after it. "
        "Pooled: over the samples of all clients together. Acc(L): plain mean over clients, "
        "on their own samples. Acc(G): the same on samples of all clients. Acc: the sum of "
        "both in one round, at most 200. rho: number of clients above epsilon; below: of "
        "those that are not, in the last test."
    )
    return Table("personal", "Personal models", tuple(columns), rows, note)


def rounds_to_own(groups: Sequence[Group]) -> Table | None:
    """After how many rounds clients had an accuracy on their own samples, on average."""

    def measure(group: Group, threshold: float) -> list[float | None]:
        metric = group.personal.replace(group.main, "mean")
        found = [reached(run.lines, metric, (threshold,)) for run in group.runs]
        return [float(reach[0].round) if reach else None for reach in found]

    if main_column("", groups).unit != "percent":
        return None
    known = [at for at in SHARE_LEVELS if any(any(measure(g, at)) for g in groups)]
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
    title = f"Rounds to a mean {groups[0].main} of clients"
    return Table("rounds-to-own", title, columns, rows, note)
