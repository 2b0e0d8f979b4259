"""PURE: what a round costs, and curves over that instead of over rounds.

A new cost is one line in AXES: figures and the page follow.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fl_server.reports.groups import Group, Spread, spread
from fl_server.run.metrics.summary import values
from fl_server.watch.facts.lines import MetricsLine, number_in

Units: TypeAlias = tuple[tuple[str, float], ...]  # the smallest first
Points: TypeAlias = list[tuple[float, Spread]]

SECONDS: Units = (("s", 1), ("min", 60), ("h", 3600))
BYTES: Units = (("B", 1), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12))
JOULES: Units = (("J", 1), ("kJ", 1e3), ("MJ", 1e6))


@dataclass(frozen=True, slots=True)
class Axis:
    """Something that every round adds to; `of` is None where a round does not know it."""

    key: str  # the figure is `over-<key>`
    name: str
    units: Units
    of: Callable[[MetricsLine], float | None]


def _traffic(line: MetricsLine) -> float | None:
    up, down = number_in(line, "bytes_up"), number_in(line, "bytes_down")
    return None if up is None and down is None else (up or 0) + (down or 0)


def _energy(line: MetricsLine) -> float | None:
    """Of trainings; in virtual time also of sending, receiving and waiting."""
    busy, idle = number_in(line, "energy_joules"), number_in(line, "idle_joules")
    return None if busy is None else busy + (idle or 0.0)


AXES = (
    Axis("time", "time in rounds", SECONDS, lambda line: number_in(line, "seconds")),
    Axis("bytes", "bytes sent and received", BYTES, _traffic),
    Axis("energy", "energy", JOULES, _energy),
)


def along(group: Group, metric: str, axis: Axis) -> Points:
    """A metric over a cost so far: for each tested round the means over the runs of both.

    Empty if a run does not know the cost.
    """
    places: dict[int, list[float]] = defaultdict(list)
    found: dict[int, list[float]] = defaultdict(list)
    for run in group.runs:
        spent = spent_by(run.lines, axis)
        if spent is None:
            return []
        for round_number, value in values(run.lines, metric):
            places[round_number].append(spent[round_number])
            found[round_number].append(value)
    return [
        (math.fsum(places[at]) / len(places[at]), middle)
        for at in sorted(found)
        if (middle := spread(found[at])) is not None
    ]


def spent_by(lines: Sequence[MetricsLine], axis: Axis) -> dict[int, float] | None:
    """What all rounds up to each one cost; None if no round knows it."""
    found, total, known = {}, 0.0, False
    for line in lines:
        cost = axis.of(line)
        known |= cost is not None
        total += cost or 0.0
        found[line.round] = total
    return found if known else None


def unit_of(axis: Axis, largest: float) -> tuple[str, float]:
    """The unit in which numbers up to this one are drawn."""
    fitting = [unit for unit in axis.units if largest >= 3 * unit[1]]
    return fitting[-1] if fitting else axis.units[0]
