"""PURE: the rebalanced set of a client: as many samples of each class, some of them augmented.

Here is how many and which samples; augmented copies are made in `augmentation/`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from common.data.samples import Labels, Samples
from common.errors import ConfigError

Counts: TypeAlias = npt.NDArray[np.int64]
Scope: TypeAlias = Literal["client", "all"]
Statistic: TypeAlias = Literal["mean", "median", "max", "min", "secmin", "number"]
Augmentation: TypeAlias = Literal["five_step", "autoaugment", "duplicate"]

MANY_TIMES = 10  # a rebalanced set that is so much larger than the original is worth a warning


@dataclass(frozen=True, slots=True)
class Rebalance:
    """How a rebalanced set is made: its samples per class, and its copies.

    The samples per class are, by `scope`, the statistic of the client's own class counts (those
    that are not 0), or that of all clients' training sizes divided by the number of the
    client's classes; with the statistic "number" they are `number`.
    """

    scope: Scope = "client"
    statistic: Statistic = "mean"
    number: int = 0
    augmentation: Augmentation = "five_step"

    def __post_init__(self) -> None:
        if self.statistic == "number" and self.number < 1:
            raise ConfigError(f"the rebalancing number is {self.number}; expected 1 or more")

    @property
    def key(self) -> str:
        """A short name for everything the made set depends on, besides the shard."""
        if self.statistic == "number":
            return f"number-{self.number}-{self.augmentation}"
        return f"{self.scope}-{self.statistic}-{self.augmentation}"


@dataclass(frozen=True, slots=True, eq=False)
class Rebalanced:
    """Equally many samples of each class; `effective` of them are not augmented."""

    samples: Samples
    effective: int


def target_of(rebalance: Rebalance, counts: Counts, sizes: Counts) -> int:
    """The samples of each class in a client's rebalanced set.

    `counts` are those of the client's classes, `sizes` the training sizes of all clients.
    """
    own = counts[counts > 0]
    if rebalance.statistic == "number":
        return rebalance.number
    if rebalance.scope == "client":
        wanted = _statistic(rebalance.statistic, own)
    else:
        wanted = _statistic(rebalance.statistic, sizes) / len(own)
    return max(1, math.floor(wanted + 0.5))


def _statistic(name: Statistic, values: Counts) -> float:
    match name:
        case "mean":
            return float(values.mean())
        case "median":
            return float(np.median(values))
        case "max":
            return float(values.max())
        case "min":
            return float(values.min())
        case _:  # the second smallest, or the only one
            return float(np.sort(values)[:2][-1])


def rebalanced_counts(counts: Counts, target: int) -> Counts:
    """The samples of each class in the rebalanced set; absent classes stay absent."""
    return np.where(counts > 0, target, 0).astype(np.int64)


def effective_samples(counts: Counts, target: int) -> int:
    """How many samples of the rebalanced set are originals: the effective number."""
    return int(np.minimum(counts, target).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Which samples a rebalanced set is made of: some as they are, some to be augmented."""

    originals: Counts
    copied: Counts


def choose(labels: Labels, target: int, rng: np.random.Generator) -> Choice:
    """Every class brought to `target` samples.

    A class with more gives up random ones; of a class with fewer, random ones are copied.
    """
    originals, copied = [], []
    for label in np.unique(labels):
        indices = np.flatnonzero(labels == label)
        if len(indices) < target:
            originals.append(indices)
            copied.append(rng.choice(indices, target - len(indices)))
        else:
            originals.append(np.sort(rng.choice(indices, target, replace=False)))
    nothing = [np.zeros(0, np.int64)]
    return Choice(np.concatenate(originals or nothing), np.concatenate(copied or nothing))
