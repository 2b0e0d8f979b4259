"""What one client has of a dataset, as one file: a board loads only its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.arrays import Array
from common.data.array_files import read_arrays, write_arrays
from common.data.partition import Indices
from common.data.samples import Samples, samples_of
from common.errors import DataError


@dataclass(frozen=True, slots=True, eq=False)
class Shard:
    """A client's samples; `counts` says how many training samples it has of each class.

    `sizes` are the training sizes of all clients of the partition, and `union` is the same for
    all clients: samples of all their test sets.
    """

    train: Samples
    test: Samples
    counts: Indices
    sizes: Indices
    union: Samples | None

    @property
    def nbytes(self) -> int:
        """Memory of the samples."""
        parts = (self.train, self.test, *((self.union,) if self.union is not None else ()))
        return sum(part.nbytes for part in parts)


def shard_path(folder: Path, client_id: int) -> Path:
    """The file of a client's shard."""
    return folder / f"client-{client_id}.safetensors"


def write_shard(path: Path, shard: Shard) -> None:
    """Write a shard; same samples, same bytes."""
    arrays: dict[str, Array] = {
        **shard.train.arrays("train"),
        **shard.test.arrays("test"),
        "counts": shard.counts.astype(np.int64),
        "sizes": shard.sizes,
    }
    if shard.union is not None:
        arrays |= shard.union.arrays("union")
    write_arrays(path, arrays)


def read_shard(path: Path) -> Shard:
    """A shard, checked against the digest it was written with."""
    arrays = read_arrays(path)
    train, test = samples_of(arrays, "train"), samples_of(arrays, "test")
    if train is None or test is None or not arrays.keys() >= {"counts", "sizes"}:
        raise DataError(f"{path} is damaged: it is not a shard")
    union = samples_of(arrays, "union")
    return Shard(train, test, arrays["counts"], arrays["sizes"], union)
