"""The shard of a client whose data only its board has, made once for a run.

The board's file may grow while a run lasts; the run goes on with the samples it began with.
"""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np

from common.config import DataSection, Schema
from common.data.datasets.base import Dataset
from common.data.own.load import load_local, moments_of_table, stated
from common.data.own.statistics import standardised
from common.data.partition import Indices, split, split_by_class
from common.data.samples import Samples
from common.data.shard_file import Shard
from common.data.strata import strata_of
from common.errors import DataError
from common.rng import generator
from common.wire.messages import ClientData, bounded

log = logging.getLogger(__name__)


def make_local_shard(
    data: DataSection, folder: Path | None, client_id: int, seed: int
) -> tuple[Shard, Dataset]:
    """The samples of one client, divided into a part to train and one to test."""
    if folder is None:
        raise DataError(
            "data.partition is 'local', but this board does not know where its data is; "
            "expected 'fl-client run --data FOLDER'"
        )
    if not folder.is_dir():
        raise DataError(f"--data is {folder}, which is not a folder")
    try:
        dataset = load_local(data, folder, client_id)
        train, test = _parts(data, dataset, seed)
    except DataError as error:
        raise DataError(f"the data of client {client_id} does not fit: {error}") from error
    sizes = np.array([len(train)], np.int64)
    made = Shard(_samples(dataset, train), _samples(dataset, test), sizes, sizes, None)
    log.info("client %d: %d samples to train, %d to test", client_id, len(train), len(test))
    return made, dataset


def _parts(data: DataSection, dataset: Dataset, seed: int) -> tuple[Indices, Indices]:
    everything = np.arange(len(dataset.targets))
    if len(everything) < data.min_size:
        raise DataError(
            f"it has {len(everything)} samples; data.min_size expects at least {data.min_size}"
        )
    if data.test == "official":
        if dataset.official == len(everything):
            raise DataError("it has no test part; expected one, or data.test = 'pool'")
        return everything[: dataset.official], everything[dataset.official :]
    rng = generator(seed, "local-split")  # clients that share a file test on the same samples
    if data.stratify:
        return split_by_class(everything, strata_of(data, dataset), data.train_ratio, rng)
    return split(everything, data.train_ratio, rng)


def _samples(dataset: Dataset, indices: Indices) -> Samples:
    return Samples(tuple(one[indices] for one in dataset.inputs), dataset.targets[indices])


def data_of(data: DataSection, shard: Shard, *, classes: bool) -> ClientData:
    """What is reported of a client: sizes, and moments of numbers that are standardised."""
    schema = stated(data)
    mean: tuple[float, ...] = ()
    squares: tuple[float, ...] = ()
    if schema.columns and data.standardise:
        moments = moments_of_table(schema, shard.train.inputs[0])
        mean, squares = moments.mean, moments.squares
        if any(bounded(value) is None for value in (*mean, *squares)):
            raise DataError("a column has numbers beyond 1e15; expected another unit")
    return ClientData(
        train=len(shard.train),
        test=len(shard.test),
        mean=mean,
        squares=squares,
        classes=tuple(shard.counts.tolist()) if classes else (),
    )


def standardised_samples(
    samples: Samples, mean: tuple[float, ...], deviation: tuple[float, ...]
) -> Samples:
    """The samples of a table with numbers around 0."""
    return Samples((standardised(samples.inputs[0], mean, deviation),), samples.targets)


def columns_of(schema: Schema) -> int:
    """How many columns of numbers a table has: as many means are reported."""
    return sum(not column.categories for column in schema.columns)
