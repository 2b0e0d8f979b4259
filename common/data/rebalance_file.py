"""A client's rebalanced set as a file beside its shard: made once, from the shard alone."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np

from common.arrays import Array
from common.data.array_files import read_arrays, write_arrays
from common.data.augmentation.five_step import augmented
from common.data.rebalance import (
    MANY_TIMES,
    Counts,
    Rebalance,
    Rebalanced,
    choose,
    effective_samples,
    target_of,
)
from common.data.samples import Samples, samples_of
from common.errors import DataError
from common.rng import generator

log = logging.getLogger(__name__)


def rebalanced_path(folder: Path, client: int, rebalance: Rebalance) -> Path:
    """The file of a client's rebalanced set."""
    return folder / f"client-{client}.rebalanced-{rebalance.key}.safetensors"


def read_rebalanced(path: Path) -> Rebalanced:
    """A rebalanced set, checked against the digest it was written with."""
    arrays = read_arrays(path)
    samples = samples_of(arrays, "made")
    if samples is None or "effective" not in arrays:
        raise DataError(f"{path} is damaged: it is not a rebalanced set")
    return Rebalanced(samples, int(arrays["effective"][0]))


def make_rebalanced(
    path: Path,
    train: Samples,
    numbers: tuple[Counts, Counts],
    rebalance: Rebalance,
    *,
    seed: int,
    client: int,
) -> None:
    """Write the rebalanced set of a client with these counts per class and sizes of all."""
    counts, sizes = numbers
    target = target_of(rebalance, counts, sizes)
    made = rebalanced_set(train, target, rebalance, generator(seed, "rebalance", client))
    if len(made) > MANY_TIMES * len(train):
        log.warning(
            "client %d: its rebalanced set has %d samples, made of only %d",
            client,
            len(made),
            len(train),
        )
    effective = effective_samples(counts, target)
    log.info("client %d: %d rebalanced samples, %d originals", client, len(made), effective)
    arrays: dict[str, Array] = {
        **made.arrays("made"),
        "effective": np.array([effective], np.int64),
    }
    write_arrays(path, arrays)


def rebalanced_set(
    train: Samples, target: int, rebalance: Rebalance, rng: np.random.Generator
) -> Samples:
    """`target` samples of each class of the client: originals first, then augmented ones."""
    choice = choose(train.targets, target, rng)
    kind = rebalance.augmentation
    inputs = tuple(
        np.concatenate([part[choice.originals], augmented(part[choice.copied], kind, rng)])
        for part in train.inputs
    )
    return Samples(inputs, train.targets[np.concatenate([choice.originals, choice.copied])])
