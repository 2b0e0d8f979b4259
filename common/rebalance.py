"""Rebalanced samples: what an algorithm may ask for, and what it gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from common.samples import Samples


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Which rebalanced samples are wanted."""

    scope: Literal["client", "all"] = "client"
    statistic: Literal["mean", "median", "max", "secmin", "number"] = "mean"
    number: int = 0
    augmentation: Literal["five_step", "autoaugment", "duplicate"] = "five_step"


@dataclass(frozen=True, slots=True, eq=False)
class Rebalanced:
    """A client's rebalanced samples; `effective` of them are no augmented copies."""

    samples: Samples
    effective: int
