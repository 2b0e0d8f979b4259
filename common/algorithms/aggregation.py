"""PURE: how updates become one model: weighted mean, or rules robust against a few outliers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import numpy as np

from common.arrays import Array, Arrays, moved, part_of, weighted_mean
from common.config import AggregationSection
from common.privacy.exact import Scale, exact_mean

Aggregation: TypeAlias = AggregationSection
Weighted: TypeAlias = tuple[Arrays, Mapping[str, float]]


def combine(
    settings: Aggregation,
    updates: Iterable[Weighted],
    download: Arrays,
    scale: Scale | None = None,
) -> dict[str, Array]:
    """One set of arrays from the updates of a round; `download` is what they started from.

    With a scale the mean is exact.
    """
    if settings.clip_norm:
        updates = _clipped(updates, download, settings.clip_norm)
    match settings.rule:
        case "mean":
            return weighted_mean(updates) if scale is None else exact_mean(scale, updates)
        case "median":
            return _by_coordinate(updates, cut=None)
        case "trimmed-mean":
            return _by_coordinate(updates, cut=settings.trim)
        case "krum":
            return _krum(updates, settings.hostile, keep=1)
        case "multi-krum":
            return _krum(updates, settings.hostile, keep=None)


def _clipped(
    updates: Iterable[Weighted], download: Arrays, longest: float
) -> Iterator[Weighted]:
    """Each update moved towards the download until its distance is at most `longest`."""
    for arrays, weights in updates:
        yield shortened(arrays, download, longest), weights


def shortened(arrays: Arrays, download: Arrays, longest: float) -> dict[str, Array]:
    """An update whose move from the download is at most so long."""
    moves = _moves(arrays, download)
    length = _length(moves)
    factor = min(1.0, longest / length) if length else 1.0
    near = {
        name: (download[name] + factor * move).astype(arrays[name].dtype)
        for name, move in moves.items()
    }
    return {**arrays, **near}


def move_length(arrays: Arrays, download: Arrays) -> float:
    """How far an update is from the download."""
    return _length(_moves(arrays, download))


def _moves(arrays: Arrays, download: Arrays) -> dict[str, Array]:
    return {
        name: array.astype(np.float64) - download[name]
        for name, array in arrays.items()
        if name in download and np.issubdtype(array.dtype, np.floating)
    }


def _length(moves: Arrays) -> float:
    return float(np.sqrt(sum(float(np.sum(move**2)) for move in moves.values())))


def _by_coordinate(updates: Iterable[Weighted], cut: float | None) -> dict[str, Array]:
    """Median, or mean without the `cut` smallest and largest shares; all updates in memory."""
    everyone = [arrays for arrays, _ in updates]
    out = int(len(everyone) * cut) if cut is not None else (len(everyone) - 1) // 2
    combined: dict[str, Array] = {}
    for name, first in everyone[0].items():
        values = np.sort(np.stack([arrays[name] for arrays in everyone]), axis=0)
        middle = values[out : len(everyone) - out]
        combined[name] = middle.mean(axis=0, dtype=np.float64).astype(first.dtype)
    return combined


def _krum(updates: Iterable[Weighted], hostile: int, keep: int | None) -> dict[str, Array]:
    """Krum (Blanchard et al., 2017): the updates in whose neighbourhood most others are.

    The score of an update is the sum of its squared distances to its n - f - 2 nearest others,
    where f may be hostile; the one with the lowest counts (Krum), or the mean of the n - f
    lowest (multi-Krum). After drop-outs there may be fewer updates than the rule wants: then
    one neighbour, or one update, is enough. All updates are in memory.
    """
    everyone = [arrays for arrays, _ in updates]
    count = len(everyone)
    squares = np.zeros((count, count))
    for one in range(count):
        for other in range(one):
            far = _distance(everyone[one], everyone[other])
            squares[one, other] = squares[other, one] = far
    near = np.sort(squares, axis=1)[:, 1 : max(1, count - hostile - 2) + 1]  # [:, 0] is itself
    best = np.argsort(near.sum(axis=1), kind="stable")[: keep or max(1, count - hostile)]
    equal = dict.fromkeys((part_of(name) for name in everyone[0]), 1.0)
    return weighted_mean((everyone[at], equal) for at in sorted(best))


def _distance(one: Arrays, other: Arrays) -> float:
    """The squared distance of two updates; whole numbers do not count."""
    moves = moved(one, other).values()
    return sum(float(np.square(move, dtype=np.float64).sum()) for move in moves)
