"""PURE: what a few numbers of a few seeds allow to say: intervals, and a paired test.

Student's t distribution is computed here, by the continued fraction of the incomplete beta
function (Numerical Recipes, section 6.4), to about 1e-10.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LEVEL = 0.95
FEWEST = 3  # pairs: with two of them a t-test rejects next to nothing


@dataclass(frozen=True, slots=True)
class Paired:
    """The differences of pairs: their mean, its interval, and the two-sided p-value."""

    mean: float
    half_width: float
    p: float
    pairs: int


def half_width(std: float, count: int, level: float = LEVEL) -> float:
    """Half of the confidence interval of a mean, from a sample standard deviation."""
    return t_quantile((1 + level) / 2, count - 1) * std / math.sqrt(count)


def paired(ours: Mapping[int, float], others: Mapping[int, float]) -> Paired | None:
    """Student's test of the differences for the seeds that both have; None with too few."""
    seeds = sorted(ours.keys() & others.keys())
    if len(seeds) < FEWEST:
        return None
    differences = [ours[seed] - others[seed] for seed in seeds]
    count = len(differences)
    mean = math.fsum(differences) / count
    squares = math.fsum((value - mean) ** 2 for value in differences)
    std = math.sqrt(squares / (count - 1))
    if std <= 1e-12 * max(abs(value) for value in (*ours.values(), *others.values(), 1e-300)):
        # all differences are the same number: the test is 0/0 or x/0
        return Paired(mean, 0.0, 1.0 if mean == 0 else 0.0, count)
    p = two_sided(mean / (std / math.sqrt(count)), count - 1)
    return Paired(mean, half_width(std, count), p, count)


def holm(ps: Sequence[float]) -> list[float]:
    """The p-values, corrected for their number by Holm's method, in the same order."""
    order = sorted(range(len(ps)), key=lambda at: ps[at])
    found, largest = [0.0] * len(ps), 0.0
    for place, at in enumerate(order):
        largest = max(largest, min(1.0, ps[at] * (len(ps) - place)))
        found[at] = largest
    return found


def two_sided(t: float, freedom: int) -> float:
    """How likely a value at least as far from 0 is, under Student's distribution."""
    return _beta(freedom / 2, 0.5, freedom / (freedom + t * t))


def t_quantile(share: float, freedom: int) -> float:
    """The value below which this share (above one half) of the distribution lies."""
    tail = 2 * (1 - share)
    low, high = 0.0, 1.0
    while two_sided(high, freedom) > tail:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, freedom) > tail else (low, middle)
    return (low + high) / 2


def _beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(logarithm + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the function above, by Lentz' method."""
    tiny = 1e-300
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1), tiny)
    value = d
    for m in range(1, 500):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _not_zero(1 + term * d, tiny)
            c = _not_zero(1 + term / c, tiny)
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value


def _not_zero(value: float, tiny: float) -> float:
    return value if abs(value) > tiny else tiny
