"""What a benchmark has measured, and small helpers to measure it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured ratio, what it is against, and what it must reach."""

    benchmark: str
    what: str
    against: str
    must: str
    value: float | None  # None: not measured, and `note` says why
    reached: bool | None
    note: str = ""
    details: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: `full` is what is published, a small one tries the machinery."""

    full: bool

    def pick(self, full: int, small: int) -> int:
        """A number of repeats, rounds or boards."""
        return full if self.full else small


def figure(
    benchmark: str,
    what: str,
    *,
    against: str,
    value: float,
    limit: tuple[Literal["at least", "at most"], float],
    note: str = "",
    details: Mapping[str, object] | None = None,
) -> Figure:
    """A measured figure, judged."""
    word, mark = limit
    reached = value >= mark if word == "at least" else value <= mark
    return Figure(
        benchmark,
        what,
        against,
        f"{word} {mark:g}",
        round(value, 3),
        reached,
        note,
        details or {},
    )


def interleaved(
    measures: Mapping[str, Callable[[], float]], repeats: int
) -> dict[str, list[float]]:
    """Each measure in turn, again and again: what disturbs the machine disturbs them all."""
    found: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(repeats):
        for name, measure in measures.items():
            found[name].append(measure())
    return found


def median(values: list[float]) -> float:
    """The middle one."""
    return statistics.median(values)


def rounded(values: list[float]) -> list[float]:
    """For people."""
    return [round(value, 4) for value in values]
