"""PURE: how long it took to recover from the faults of a script, by kind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recovery:
    """How a kind of fault went."""

    kind: str
    target: str
    count: int
    median: float
    worst: float


def recoveries(found: Iterable[tuple[str, str, float]]) -> list[Recovery]:
    """From (kind, target, seconds) of all faults: how many of each kind, median and worst."""
    groups: dict[tuple[str, str], list[float]] = {}
    for kind, target, seconds in found:
        who = target if target in ("server", "broker") else "board"
        groups.setdefault((kind, who), []).append(seconds)
    return [
        Recovery(kind, who, len(times), sorted(times)[len(times) // 2], max(times))
        for (kind, who), times in sorted(groups.items())
    ]
