"""PURE: which client gets which samples: equal shares or a skew, and its train and test part.

The same settings, labels and seed give the same indices. How many samples of each class
a client gets is in `skews.py`.
"""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from common.config import DataSection
from common.data.skews import RECIPES, SMALLEST, smallest_of
from common.data.windows import Spans, can_be_split
from common.errors import ConfigError, DataError
from common.rng import generator

Indices: TypeAlias = npt.NDArray[np.int64]

NO_OWNER = -1

log = logging.getLogger(__name__)


def partition(
    data: DataSection,
    labels: npt.NDArray[np.int64],
    seed: int,
    natural: Indices | None = None,
    spans: Spans | None = None,
) -> list[Indices]:
    """The samples of each client, ascending; no sample belongs to two clients.

    Every sample belongs to one, with three exceptions: what "classes" cannot divide equally,
    the clients that "natural" does not choose, and what is beyond `max_samples` is left over.
    `natural` says where the samples of each natural client begin, and ends with their number.
    Of natural clients whose samples are windows of a text, `spans`, each keeps a run of them,
    long enough to be split.
    """
    smallest = smallest_of(data)
    if data.clients * smallest > len(labels):
        raise ConfigError(
            f"data.clients is {data.clients}; expected at most {len(labels) // smallest}, "
            f"as {data.dataset!r} has {len(labels)} samples and each client needs {smallest}"
        )
    rng = generator(seed, "partition")
    if data.partition == "natural":
        parts = _natural_parts(data, natural, seed, spans)
    elif data.partition == "iid":
        parts = _grouped(_equal_owners(data.clients, len(labels), rng), data.clients)
    else:
        parts = _grouped(_skewed_owners(data, labels, rng), data.clients)
    if data.max_samples and (data.partition != "natural" or spans is None):
        parts = [
            _at_most(part, data.max_samples, generator(seed, "max_samples", client))
            for client, part in enumerate(parts)
        ]
    left = len(labels) - sum(map(len, parts))
    if left:
        # "classes" leaves over what the user did not ask to leave
        level = logging.WARNING if data.partition == "classes" else logging.INFO
        text = "%d of %d samples are left over and belong to no client"
        log.log(level, text, left, len(labels))
    return parts


def no_natural_clients(dataset: str) -> ConfigError:
    """The error for the natural clients of a dataset that has none."""
    cure = (
        "data.group = the column that says whose a sample is"
        if ":" in dataset
        else "the dataset 'shakespeare'"
    )
    return ConfigError(
        f"data.partition is 'natural', but {dataset!r} has no clients of its own; "
        f"expected another partition, or {cure}"
    )


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
    """A split of each class separately; the only sample of a class trains.

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


def _grouped(owners: Indices, clients: int) -> list[Indices]:
    """The samples of each client, from the owner of each sample."""
    left = np.count_nonzero(owners == NO_OWNER)
    sizes = np.bincount(owners[owners != NO_OWNER], minlength=clients)
    return np.split(np.argsort(owners, kind="stable")[left:], np.cumsum(sizes)[:-1])


def _natural_parts(
    data: DataSection, natural: Indices | None, seed: int, spans: Spans | None
) -> list[Indices]:
    """The samples of as many natural clients as are wanted, drawn from those large enough."""
    if natural is None:
        raise no_natural_clients(data.dataset)
    all_of = [np.arange(begin, end) for begin, end in pairwise(natural)]
    needs = f"data.min_size = {data.min_size} samples"
    if spans is not None:
        limit = f" (data.max_samples = {data.max_samples})" if data.max_samples else ""
        needs += f", and windows to test behind all that overlap those to train{limit}"
        all_of = [
            _run_of(run, data.max_samples, generator(seed, "max_samples", role))
            for role, run in enumerate(all_of)
        ]
    enough = np.array(
        [
            role
            for role, run in enumerate(all_of)
            if natural[role + 1] - natural[role] >= data.min_size
            and (spans is None or can_be_split(run, data.train_ratio, spans))
        ],
        np.int64,
    )
    if data.clients > len(enough):
        raise ConfigError(
            f"data.clients is {data.clients}; expected at most {len(enough)}, as no more of "
            f"the {len(natural) - 1} natural clients of {data.dataset!r} have {needs}"
        )
    rng = generator(seed, "partition")
    chosen = np.sort(rng.choice(enough, data.clients, replace=False))
    return [all_of[role] for role in chosen]


def _run_of(part: Indices, most: int, rng: np.random.Generator) -> Indices:
    """Neighbouring samples, from a random place on, if a client may have only so many."""
    if not most or len(part) <= most:
        return part
    begin = int(rng.integers(len(part) - most + 1))
    return part[begin : begin + most]


def _at_most(part: Indices, most: int, rng: np.random.Generator) -> Indices:
    """The samples a client keeps if it may have no more than `most`."""
    return part if len(part) <= most else np.sort(rng.choice(part, most, replace=False))


def _equal_owners(clients: int, size: int, rng: np.random.Generator) -> Indices:
    """The owner of each sample, dealt in turn from a shuffled pile."""
    owners = np.empty(size, np.int64)
    owners[rng.permutation(size)] = np.arange(size) % clients
    return owners


def _skewed_owners(
    data: DataSection, labels: npt.NDArray[np.int64], rng: np.random.Generator
) -> Indices:
    """The owner of each sample: each class is divided by the recipe."""
    classes, sizes = np.unique(labels, return_counts=True)
    counts = RECIPES[data.partition](data, sizes, rng)
    owners = np.full(len(labels), NO_OWNER, np.int64)
    for label, row in zip(classes, counts, strict=True):
        shuffled = rng.permutation(np.flatnonzero(labels == label))
        owners[shuffled[: row.sum()]] = np.repeat(np.arange(data.clients), row)
    return owners
