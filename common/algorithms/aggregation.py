"""PURE: how updates become one model: weighted mean, or rules robust against a few outliers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import numpy as np

from common.arrays import Array, Arrays, weighted_mean
from common.config import AggregationSection

Aggregation: TypeAlias = AggregationSection
Weighted: TypeAlias = tuple[Arrays, Mapping[str, float]]


def combine(
    settings: Aggregation, updates: Iterable[Weighted], download: Arrays
) -> dict[str, Array]:
    """One set of arrays from the updates of a round; `download` is what they started from."""
    if settings.clip_norm:
        updates = _clipped(updates, download, settings.clip_norm)
    match settings.rule:
        case "mean":
            return weighted_mean(updates)
        case "median":
            return _by_coordinate(updates, cut=None)
        case "trimmed-mean":
            return _by_coordinate(updates, cut=settings.trim)


def _clipped(
    updates: Iterable[Weighted], download: Arrays, longest: float
) -> Iterator[Weighted]:
    """Each update moved towards the download until its distance is at most `longest`."""
    for arrays, weights in updates:
        moves = {
            name: array.astype(np.float64) - download[name]
            for name, array in arrays.items()
            if name in download and np.issubdtype(array.dtype, np.floating)
        }
        length = float(np.sqrt(sum(float(np.sum(move**2)) for move in moves.values())))
        factor = min(1.0, longest / length) if length else 1.0
        near = {
            name: (download[name] + factor * move).astype(arrays[name].dtype)
            for name, move in moves.items()
        }
        yield {**arrays, **near}, weights


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
