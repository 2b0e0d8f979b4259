"""Who gets which samples: equal shares or label skew, and each client's train and test part.

Pure: the same settings, labels and seed give the same indices.
"""

from __future__ import annotations

import logging
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from common.config import DataSection
from common.errors import ConfigError, DataError
from common.rng import generator

Indices: TypeAlias = npt.NDArray[np.int64]

MOST_DRAWS = 1000
SMALLEST = 2  # one sample to train, one to test

log = logging.getLogger(__name__)


def partition(data: DataSection, labels: npt.NDArray[np.int64], seed: int) -> list[Indices]:
    """The samples of each client, ascending; every sample belongs to exactly one client."""
    smallest = data.min_size if data.partition == "dirichlet" else SMALLEST
    if data.clients * smallest > len(labels):
        raise ConfigError(
            f"data.clients is {data.clients}; expected at most {len(labels) // smallest}, "
            f"as {data.dataset!r} has {len(labels)} samples and each client needs {smallest}"
        )
    rng = generator(seed, "partition")
    if data.partition == "iid":
        owners = _equal_owners(data.clients, len(labels), rng)
    else:
        owners = _skewed_owners(data, labels, rng)
    sizes = np.bincount(owners, minlength=data.clients)
    return np.split(np.argsort(owners, kind="stable"), np.cumsum(sizes)[:-1])


def split(indices: Indices, ratio: float, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """A random `ratio` of the samples to train with and the rest to test, neither empty."""
    if len(indices) < SMALLEST:
        raise DataError(f"{len(indices)} samples cannot be split; expected at least {SMALLEST}")
    count = min(max(int(len(indices) * ratio + 0.5), 1), len(indices) - 1)
    shuffled = rng.permutation(indices)
    return np.sort(shuffled[:count]), np.sort(shuffled[count:])


def _equal_owners(clients: int, size: int, rng: np.random.Generator) -> Indices:
    """The owner of each sample, dealt in turn from a shuffled pile."""
    owners = np.empty(size, np.int64)
    owners[rng.permutation(size)] = np.arange(size) % clients
    return owners


def _skewed_owners(
    data: DataSection, labels: npt.NDArray[np.int64], rng: np.random.Generator
) -> Indices:
    """The owner of each sample: each class is divided by a Dirichlet draw."""
    classes, sizes = np.unique(labels, return_counts=True)
    counts = _draw_counts(data, sizes, rng)
    owners = np.empty(len(labels), np.int64)
    for label, row in zip(classes, counts, strict=True):
        shuffled = rng.permutation(np.flatnonzero(labels == label))
        owners[shuffled] = np.repeat(np.arange(data.clients), row)
    return owners


def _draw_counts(data: DataSection, sizes: Indices, rng: np.random.Generator) -> Indices:
    """Samples per class and client, drawn until nobody has fewer than `min_size`."""
    best = _draw_once(data, sizes, rng)
    for _ in range(MOST_DRAWS - 1):
        if best.sum(0).min() >= data.min_size:
            return best
        best = max(best, _draw_once(data, sizes, rng), key=lambda counts: counts.sum(0).min())
    log.info(
        "no draw in %d gave every client %d samples; small clients get some of large ones",
        MOST_DRAWS,
        data.min_size,
    )
    return _topped_up(best, data.min_size, rng)


def _draw_once(data: DataSection, sizes: Indices, rng: np.random.Generator) -> Indices:
    """One draw; who already has a fair share gets nothing of the classes to come."""
    fair = sizes.sum() / data.clients
    # beyond these bounds the draws no longer change, and their arithmetic overflows
    alpha = np.full(data.clients, min(max(data.alpha, 1e-6), 1e6))
    counts = np.zeros((len(sizes), data.clients), np.int64)
    for row, size in zip(counts, sizes, strict=True):
        shares = rng.dirichlet(alpha)
        capped = np.where(counts.sum(0) >= fair, 0.0, shares)
        ends = np.cumsum(capped if capped.sum() > 0 else shares)
        row[:] = np.diff(np.floor(ends / ends[-1] * size).astype(np.int64), prepend=0)
    return counts


def _topped_up(counts: Indices, min_size: int, rng: np.random.Generator) -> Indices:
    """Random samples of the largest client for the smallest, until all have `min_size`."""
    counts = counts.copy()
    while (sizes := counts.sum(0)).min() < min_size:
        smallest, largest = sizes.argmin(), sizes.argmax()
        given = min(min_size - sizes[smallest], sizes[largest] - min_size)
        moved = rng.multivariate_hypergeometric(counts[:, largest], given)
        counts[:, largest] -= moved
        counts[:, smallest] += moved
    return counts
