"""PURE: whether one group of runs is better than the others: a test, paired by seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from fl_server.reports.groups import Group, Which
from fl_server.reports.statistics import FEWEST, Paired, holm, paired

Kind: TypeAlias = Literal["global", "personal"]
MEASURES: tuple[tuple[str, Kind, Which], ...] = (
    ("global best", "global", "best"),
    ("global last 10 tests", "global", "mean_last"),
    ("personal best", "personal", "best"),
    ("personal last 10 tests", "personal", "mean_last"),
)
ALPHA = 0.05


def metric_of(group: Group, kind: Kind) -> str:
    """The main metric of a group's global or personal models."""
    return group.shared if kind == "global" else group.personal


def leader(groups: Sequence[Group], kind: Kind, which: Which) -> int | None:
    """Which group has the best mean; None with fewer than two to compare.

    A centralized training is what to come near to: it takes no part.
    """
    means = {
        at: found.mean
        for at, group in enumerate(groups)
        if not group.central
        and (found := group.figure(metric_of(group, kind), which)) is not None
    }
    if len(means) < 2:
        return None
    choose = min if groups[0].runs[0].summary.lower else max
    return choose(means, key=lambda at: means[at])


def against_others(
    groups: Sequence[Group], kind: Kind, which: Which
) -> list[tuple[int, Paired | None, float | None]]:
    """The leader against every other group: the differences, and p corrected by Holm."""
    first = leader(groups, kind, which)
    if first is None:
        return []
    ours = groups[first].by_seed(metric_of(groups[first], kind), which)
    found = [
        (at, paired(ours, group.by_seed(metric_of(group, kind), which)))
        for at, group in enumerate(groups)
        if at != first and not group.central
    ]
    corrected = iter(holm([test.p for _, test in found if test is not None]))
    return [(at, test, None if test is None else next(corrected)) for at, test in found]


def winner(groups: Sequence[Group], kind: Kind, which: Which) -> int | None:
    """The leader, if the test tells it from every other group."""
    tests = against_others(groups, kind, which)
    if tests and all(p is not None and p < ALPHA for _, _, p in tests):
        return leader(groups, kind, which)
    return None


def winning_note(groups: Sequence[Group]) -> str:
    """How bold numbers were chosen, or why there is none."""
    compared = [group for group in groups if not group.central]
    if len(compared) < 2:
        return ""
    shared = min(len(group.runs) for group in compared)
    if shared < FEWEST:
        return f" No number is bold: a test needs {FEWEST} seeds of every row."
    return (
        " Bold, or *: better than every other row by a t-test paired by seed, two-sided, "
        "p < 0.05 after Holm's correction; the table of differences has the numbers."
    )
