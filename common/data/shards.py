"""What one client has of a dataset: one file, made once, so that a board loads only its own."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from common.arrays import Array
from common.config import DataSection
from common.data.array_files import read_arrays, write_arrays
from common.data.assignment import Assignment, allot, union_of
from common.data.datasets import Dataset, Windows, dataset_info, load_dataset
from common.data.partition import Indices
from common.data.rebalance import Rebalance
from common.data.rebalance_file import (
    Rebalanced,
    make_rebalanced,
    read_rebalanced,
    rebalanced_path,
)
from common.data.samples import Samples
from common.data.windows import Spans
from common.errors import DataError

FORMAT = 2  # counts up when the content of a shard changes for the same settings
NAMES = {"train.images", "train.labels", "test.images", "test.labels", "counts", "sizes"}
UNION = {"union.images", "union.labels"}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Shard:
    """A client's samples; `counts` says how many training samples it has of each class.

    `sizes` are the training sizes of all clients of the partition, and `union` is the same for
    all: samples of everybody's test sets.
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
        return sum(part.images.nbytes + part.labels.nbytes for part in parts)


def shard_key(data: DataSection, seed: int, *, union: int = 0) -> str:
    """A short name for everything the content of the shards depends on."""
    settings = (
        data.dataset,
        data.clients,
        data.partition,
        *_skew(data),
        *_parts(data),
        *(("max_samples", data.max_samples) if data.max_samples else ()),
        *(("share", data.share, data.share_given, data.share_removed) if data.share else ()),
        *(("union", union) if union else ()),
    )
    return hashlib.blake2b(
        msgspec.json.encode((FORMAT, seed, *settings)), digest_size=8
    ).hexdigest()


def _skew(data: DataSection) -> tuple[float, ...]:
    match data.partition:
        case "iid":
            return ()
        case "classes":
            return (data.classes_per_client,)
        case "dirichlet-client" | "ls":
            return (data.alpha,)
        case "dirichlet" | "qs" | "lsqs":
            return (data.alpha, data.min_size)
        case "natural":
            return (data.min_size,)


def _parts(data: DataSection) -> tuple[float | str, ...]:
    if data.test != "pool":
        return (data.test,)
    # text was once split at random: its shards of that time are not those meant
    is_text = len(dataset_info(data.dataset).shape) == 1
    return (
        data.train_ratio,
        *(("stratify",) if data.stratify else ()),
        *(("by place",) if is_text else ()),
    )


def ensure_shards(
    root: Path,
    data: DataSection,
    seed: int,
    clients: Sequence[int],
    *,
    union: int = 0,
    rebalance: Rebalance | None = None,
) -> Path:
    """The folder with the shards of these clients, after making those missing or damaged.

    `union` is the number of samples for `Shard.union`; with `rebalance` the clients' rebalanced
    sets are there too. The dataset is only needed when a shard has to be made.
    """
    dataset_info(data.dataset)
    for client in clients:
        if not 0 <= client < data.clients:
            raise DataError(f"client id {client} has no data; expected 0 to {data.clients - 1}")
    folder = root / shard_key(data, seed, union=union)
    if wanted := [client for client in clients if not _is_whole(folder, client)]:
        _make(folder, data, seed, wanted, union)
    if rebalance is not None:
        for client in clients:
            if not _is_rebalanced(folder, client, rebalance):
                _make_rebalanced(folder, client, rebalance, seed)
    return folder


def has_shards(
    root: Path, data: DataSection, seed: int, clients: Iterable[int], *, union: int = 0
) -> bool:
    """Whether there is a file for each of these clients, so that no dataset is needed."""
    folder = root / shard_key(data, seed, union=union)
    return all(shard_path(folder, client).exists() for client in clients)


def ensure_shared(root: Path, data: DataSection, seed: int, *, union: int = 0) -> Path:
    """The folder of the shards, with the samples that `data.share` shares in it."""
    folder = root / shard_key(data, seed, union=union)
    path = shared_path(folder)
    try:
        read_arrays(path)
    except DataError as error:
        if path.exists():
            log.warning("making the shared samples again: %s", error)
        dataset = load_dataset(data.dataset)
        shared = allotment_of(data, dataset, seed).shared
        write_arrays(path, _arrays("shared", dataset, shared))
        log.info("%d samples are shared", len(shared))
    return folder


def load_shared(folder: Path) -> Samples:
    """The samples that all clients share parts of."""
    arrays = read_arrays(shared_path(folder))
    return Samples(arrays["shared.images"], arrays["shared.labels"])


def load_shard(folder: Path, client: int) -> Shard:
    """The shard of one client, checked against the digest it was written with."""
    path = shard_path(folder, client)
    arrays = read_arrays(path)
    if arrays.keys() - UNION != NAMES:
        raise DataError(f"{path} is damaged: it is not a shard")
    union = None
    if arrays.keys() >= UNION:
        union = Samples(arrays["union.images"], arrays["union.labels"])
    return Shard(
        Samples(arrays["train.images"], arrays["train.labels"]),
        Samples(arrays["test.images"], arrays["test.labels"]),
        arrays["counts"],
        arrays["sizes"],
        union,
    )


def load_rebalanced(folder: Path, client: int, rebalance: Rebalance) -> Rebalanced:
    """The rebalanced set of one client, checked as its shard is."""
    return read_rebalanced(rebalanced_path(folder, client, rebalance))


def allotment_of(data: DataSection, dataset: Dataset, seed: int) -> Assignment:
    """Who has which samples of the dataset."""
    images = dataset.images
    return allot(
        data,
        dataset.labels,
        classes=dataset.classes,
        official=dataset.official,
        seed=seed,
        natural=dataset.natural,
        spans=Spans(images.starts, images.width) if isinstance(images, Windows) else None,
    )


def shard_path(folder: Path, client: int) -> Path:
    """The file of a client's shard."""
    return folder / f"client-{client}.safetensors"


def shared_path(folder: Path) -> Path:
    """The file with the samples that all clients share parts of."""
    return folder / "shared.safetensors"


def _is_whole(folder: Path, client: int) -> bool:
    if not shard_path(folder, client).exists():
        return False
    try:
        load_shard(folder, client)
    except DataError as error:
        log.warning("client %d: making its shard again: %s", client, error)
        return False
    return True


def _is_rebalanced(folder: Path, client: int, rebalance: Rebalance) -> bool:
    if not rebalanced_path(folder, client, rebalance).exists():
        return False
    try:
        load_rebalanced(folder, client, rebalance)
    except DataError as error:
        log.warning("client %d: making its rebalanced set again: %s", client, error)
        return False
    return True


def _make(
    folder: Path, data: DataSection, seed: int, clients: Iterable[int], union: int
) -> None:
    dataset = load_dataset(data.dataset)
    allotment = allotment_of(data, dataset, seed)
    if data.share:
        log.warning(
            "data.share: %d samples leave their owners, and each client gets some of them",
            len(allotment.shared),
        )
    common: dict[str, Array] = {"sizes": allotment.sizes()}
    if union:
        indices = union_of(allotment, dataset.labels, union, seed)
        common |= _arrays("union", dataset, indices)
    for client in clients:
        train = _arrays("train", dataset, allotment.train[client])
        test = _arrays("test", dataset, allotment.test[client])
        counts = np.bincount(train["train.labels"], minlength=dataset.classes)
        ours: dict[str, Array] = {"counts": counts.astype(np.int64)}
        write_arrays(shard_path(folder, client), {**train, **test, **ours, **common})
        log.info(
            "client %d: %d samples to train, %d to test",
            client,
            len(allotment.train[client]),
            len(allotment.test[client]),
        )


def _arrays(name: str, dataset: Dataset, indices: Indices) -> dict[str, Array]:
    return {
        f"{name}.images": dataset.images[indices],
        f"{name}.labels": dataset.labels[indices],
    }


def _make_rebalanced(folder: Path, client: int, rebalance: Rebalance, seed: int) -> None:
    shard = load_shard(folder, client)
    make_rebalanced(
        rebalanced_path(folder, client, rebalance),
        shard.train,
        (shard.counts, shard.sizes),
        rebalance,
        seed=seed,
        client=client,
    )
