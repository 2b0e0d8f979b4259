"""PURE: which clients train in a round."""

from __future__ import annotations

from collections.abc import Collection

from common.rng import generator


def choose(
    candidates: Collection[int], *, population: int, rate: float, seed: int, number: int
) -> tuple[int, ...]:
    """Draw `rate` of the population from the candidates; the same draw whenever it is made."""
    wanted = max(1, round(rate * population))
    ordered = sorted(candidates)
    if wanted >= len(ordered):
        return tuple(ordered)
    drawn = generator(seed, "selection", number).choice(len(ordered), wanted, replace=False)
    return tuple(sorted(ordered[index] for index in drawn))
