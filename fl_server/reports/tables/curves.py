"""PURE: five classes of learning curves, as in the study of optimizers and sharing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from fl_server.reports.groups import Group
from fl_server.reports.tables import Cell, Column, Table, main_column

FAST_ROUNDS = 10
FEWEST = 5  # tests that a curve must have


@dataclass(frozen=True, slots=True)
class Kind:
    """A class of curves: its number, its name, and the lowest final accuracy that it has."""

    at: int
    name: str
    lowest: float


KINDS = (
    Kind(1, "fast and stable", 0.95),
    Kind(2, "gradual but steady", 0.825),
    Kind(3, "slow or partial", 0.6),
    Kind(4, "poor or oscillating", 0.4),
    Kind(5, "failure or divergence", 0.0),
)


def kind_of(curve: Sequence[tuple[int, float]]) -> Kind:
    """The class of a curve of (round, accuracy), by where it ends and how soon it is there.

    It ends at the mean of its last tenth. The study gives ranges with gaps between them (85
    to 90 % and 60 to 80 %); the bounds here are in the middle of the gaps.
    """
    last = [value for _, value in curve[-max(1, len(curve) // 10) :]]
    final = sum(last) / len(last)
    soon = any(value >= KINDS[0].lowest for at, value in curve if at <= FAST_ROUNDS)
    for kind in KINDS:
        if final >= kind.lowest and (kind.at > 1 or soon):
            return kind
    return KINDS[-1]


def largest_fall(curve: Sequence[tuple[int, float]]) -> float:
    """By how much the accuracy fell from one test to the next, at most."""
    falls = (one[1] - two[1] for one, two in pairwise(curve))
    return max(0.0, *falls) if len(curve) > 1 else 0.0


def _line(label: str, curve: Sequence[tuple[int, float]]) -> tuple[Cell, ...]:
    kind = kind_of(curve)
    return label, kind.at, kind.name, curve[-1][1], largest_fall(curve)


def curve_table(groups: Sequence[Group]) -> Table | None:
    """The class of every group's mean curve of the global model."""
    if main_column("", groups).unit != "percent":
        return None
    curves = {
        group.label: [(at, found.mean) for at, found in group.curve(group.shared) if at > 0]
        for group in groups
    }
    if not any(len(curve) >= FEWEST for curve in curves.values()):
        return None
    columns = (
        Column("run"),
        Column("class", "count"),
        Column("curve"),
        Column("end", "percent"),
        Column("largest fall", "percent"),
    )
    rows = tuple(_line(label, curve) for label, curve in curves.items() if len(curve) >= FEWEST)
    note = (
        "Classes of the mean over the seeds: 1 has 95 % within ten rounds and stays there, 2 "
        "ends above 82.5 %, 3 above 60 %, 4 above 40 %, 5 below."
    )
    return Table("curves", "Five classes of learning curves", columns, rows, note)
