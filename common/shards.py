"""What one client has of a dataset: one file, made once, so that a board loads only its own."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import safetensors
import safetensors.numpy

from common.arrays import Array, digest
from common.config import DataSection
from common.datasets import dataset_info, load_dataset
from common.errors import DataError
from common.partition import Indices, partition, split, split_by_class
from common.rng import generator
from common.samples import Samples
from common.storage import write_atomic

FORMAT = 1  # counts up when the content of a shard changes for the same settings
NAMES = {"train.images", "train.labels", "test.images", "test.labels", "counts"}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Shard:
    """A client's samples; `counts` says how many training samples it has of each class."""

    train: Samples
    test: Samples
    counts: Indices


def shard_key(data: DataSection, seed: int) -> str:
    """A short name for everything the content of the shards depends on."""
    way = ("stratify",) if data.stratify else ()
    most = ("max_samples", data.max_samples) if data.max_samples else ()
    settings = (
        data.dataset,
        data.clients,
        data.partition,
        *_skew(data),
        data.train_ratio,
        *way,
        *most,
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


def ensure_shards(root: Path, data: DataSection, seed: int, clients: Sequence[int]) -> Path:
    """The folder with the shards of these clients, after making those missing or damaged."""
    dataset_info(data.dataset)
    for client in clients:
        if not 0 <= client < data.clients:
            raise DataError(f"client id {client} has no data; expected 0 to {data.clients - 1}")
    folder = root / shard_key(data, seed)
    wanted = [client for client in clients if not _is_whole(folder, client)]
    if wanted:
        _make(folder, data, seed, wanted)
    return folder


def load_shard(folder: Path, client: int) -> Shard:
    """The shard of one client, checked against the digest it was written with."""
    path = _path(folder, client)
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            written = (file.metadata() or {}).get("digest")
            names = file.keys()
            arrays: dict[str, Array] = {name: file.get_tensor(name) for name in names}
    except (OSError, safetensors.SafetensorError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if arrays.keys() != NAMES or digest(arrays) != written:
        raise DataError(f"{path} is damaged: its content is not what was written")
    return Shard(
        Samples(arrays["train.images"], arrays["train.labels"]),
        Samples(arrays["test.images"], arrays["test.labels"]),
        arrays["counts"],
    )


def _path(folder: Path, client: int) -> Path:
    return folder / f"client-{client}.safetensors"


def _is_whole(folder: Path, client: int) -> bool:
    if not _path(folder, client).exists():
        return False
    try:
        load_shard(folder, client)
    except DataError as error:
        log.warning("client %d: making its shard again: %s", client, error)
        return False
    return True


def _make(folder: Path, data: DataSection, seed: int, clients: Iterable[int]) -> None:
    dataset = load_dataset(data.dataset)
    parts = partition(data, dataset.labels, seed, dataset.natural)
    for client in clients:
        part, rng = parts[client], generator(seed, "split", client)
        if data.stratify:
            train, test = split_by_class(part, dataset.labels[part], data.train_ratio, rng)
        else:
            train, test = split(part, data.train_ratio, rng)
        labels = dataset.labels[train]
        arrays: dict[str, Array] = {
            "train.images": dataset.images[train],
            "train.labels": labels,
            "test.images": dataset.images[test],
            "test.labels": dataset.labels[test],
            "counts": np.bincount(labels, minlength=dataset.classes).astype(np.int64),
        }
        content = safetensors.numpy.save(arrays, {"digest": digest(arrays)})
        write_atomic(_path(folder, client), content)
