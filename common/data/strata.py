"""By what samples are divided among clients: their classes, or bins of their numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from common.config import DataSection
from common.data.datasets.base import Dataset, DatasetInfo
from common.errors import ConfigError

CLASSLESS = {"iid", "natural", "local"}  # partitions that do not look at targets


def strata_of(data: DataSection, dataset: Dataset) -> npt.NDArray[np.int64]:
    """The class of each sample; of a number, which of `data.bins` equally large groups."""
    targets = dataset.targets
    if dataset.kind in ("classification", "next-token"):
        return targets.astype(np.int64, copy=False)
    if dataset.kind == "regression" and targets.ndim == 1:
        return _binned(targets, data.bins)
    return np.zeros(len(targets), np.int64)


def strata_count(data: DataSection, dataset: Dataset | DatasetInfo) -> int:
    """How many there are; a partition that needs some, where there are none, is refused."""
    if dataset.kind in ("classification", "next-token"):
        return dataset.classes
    if dataset.kind == "regression" and dataset.classes == 1:
        return data.bins
    looks = data.partition not in CLASSLESS or data.stratify or data.test == "official-like"
    if looks or data.share:
        what = "several numbers" if dataset.kind == "regression" else "several labels"
        raise ConfigError(
            f"data.partition is {data.partition!r}, but targets of {data.dataset!r} "
            f"are {what}; expected 'iid', 'natural' or 'local', and no stratify or share"
        )
    return 1


def _binned(values: npt.NDArray[np.float32], bins: int) -> npt.NDArray[np.int64]:
    """Bins with equally many samples; edges are samples, so that nothing is rounded."""
    ordered = np.sort(values)
    edges = ordered[[at * len(values) // bins for at in range(1, bins)]]
    return np.searchsorted(edges, values, side="right").astype(np.int64)
