"""Who gets which samples: equal shares or a skew, and each client's train and test part.

Pure: the same settings, labels and seed give the same indices. How many samples of each class
a client gets is in `skews.py`.
"""

from __future__ import annotations

import logging
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from common.config import DataSection
from common.errors import ConfigError, DataError
from common.rng import generator
from common.skews import RECIPES, SMALLEST, smallest_of

Indices: TypeAlias = npt.NDArray[np.int64]

NOBODY = -1

log = logging.getLogger(__name__)


def partition(data: DataSection, labels: npt.NDArray[np.int64], seed: int) -> list[Indices]:
    """The samples of each client, ascending; no sample belongs to two clients.

    Every sample belongs to one, but for "classes": what does not divide equally is left over.
    """
    smallest = smallest_of(data)
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
    left = np.count_nonzero(owners == NOBODY)
    if left:
        log.info("%d of %d samples are left over and belong to no client", left, len(labels))
    sizes = np.bincount(owners[owners != NOBODY], minlength=data.clients)
    return np.split(np.argsort(owners, kind="stable")[left:], np.cumsum(sizes)[:-1])


def split(indices: Indices, ratio: float, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """A random `ratio` of the samples to train with and the rest to test, neither empty."""
    if len(indices) < SMALLEST:
        raise DataError(f"{len(indices)} samples cannot be split; expected at least {SMALLEST}")
    count = min(max(int(len(indices) * ratio + 0.5), 1), len(indices) - 1)
    shuffled = rng.permutation(indices)
    return np.sort(shuffled[:count]), np.sort(shuffled[count:])


def split_by_class(
    indices: Indices, labels: npt.NDArray[np.int64], ratio: float, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    """A split of each class by itself; the only sample of a class trains.

    `labels` are those of the indices. When no class has two samples it is a plain split, as
    neither part may be empty.
    """
    groups = [indices[labels == label] for label in np.unique(labels)]
    if len(groups) == len(indices):
        return split(indices, ratio, rng)
    train = [group for group in groups if len(group) < SMALLEST]
    test = []
    for group in groups:
        if len(group) >= SMALLEST:
            ours, theirs = split(group, ratio, rng)
            train.append(ours)
            test.append(theirs)
    return np.sort(np.concatenate(train)), np.sort(np.concatenate(test))


def _equal_owners(clients: int, size: int, rng: np.random.Generator) -> Indices:
    """The owner of each sample, dealt in turn from a shuffled pile."""
    owners = np.empty(size, np.int64)
    owners[rng.permutation(size)] = np.arange(size) % clients
    return owners


def _skewed_owners(
    data: DataSection, labels: npt.NDArray[np.int64], rng: np.random.Generator
) -> Indices:
    """The owner of each sample: each class is divided as the recipe says."""
    classes, sizes = np.unique(labels, return_counts=True)
    counts = RECIPES[data.partition](data, sizes, rng)
    owners = np.full(len(labels), NOBODY, np.int64)
    for label, row in zip(classes, counts, strict=True):
        shuffled = rng.permutation(np.flatnonzero(labels == label))
        owners[shuffled[: row.sum()]] = np.repeat(np.arange(data.clients), row)
    return owners
