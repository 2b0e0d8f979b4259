"""PURE: mean and deviation of numbers, pooled from those of parts: no sample is needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Moments:
    """How many samples, the mean of each column, and its sum of squared distances from it."""

    count: int
    mean: tuple[float, ...]
    squares: tuple[float, ...]


def moments_of(values: Numbers) -> Moments:
    """The moments of a table; sums are exact, so their order does not matter."""
    mean = tuple(math.fsum(column) / len(values) for column in values.T)
    squares = tuple(
        math.fsum(np.square(column - middle))
        for column, middle in zip(values.T, mean, strict=True)
    )
    return Moments(len(values), mean, squares)


def pooled(parts: Sequence[Moments]) -> Moments:
    """The moments of all parts together."""
    count = sum(part.count for part in parts)
    columns = range(len(parts[0].mean))
    mean = tuple(
        math.fsum(part.count * part.mean[at] for part in parts) / count for at in columns
    )
    squares = tuple(
        math.fsum(
            part.squares[at] + part.count * (part.mean[at] - mean[at]) ** 2 for part in parts
        )
        for at in columns
    )
    return Moments(count, mean, squares)


def deviation_of(moments: Moments) -> tuple[float, ...]:
    """The standard deviation of every column; 1 for one that never changes."""
    return tuple(math.sqrt(square / moments.count) or 1.0 for square in moments.squares)


def standardised(
    values: Numbers, mean: Sequence[float], deviation: Sequence[float]
) -> npt.NDArray[np.float32]:
    """Numbers with these statistics as numbers around 0."""
    moved: Numbers = (values - np.array(mean)) / np.array(deviation)
    return moved.astype(np.float32)
