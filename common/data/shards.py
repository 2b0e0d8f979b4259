"""The shards of an experiment: one file per client, each made once, in a folder of their own.

This is the one place that knows what the content of the shards depends on.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from common.config import DataSection, Experiment, Schema
from common.data.array_files import read_arrays, write_arrays
from common.data.assignment import Assignment, allot, union_of
from common.data.dataset import info_of, load_data
from common.data.datasets import Dataset, Windows
from common.data.local_shards import make_local_shard
from common.data.partition import Indices
from common.data.rebalance import Rebalance, Rebalanced
from common.data.rebalance_file import (
    make_rebalanced,
    read_rebalanced,
    rebalanced_path,
)
from common.data.samples import Samples, samples_of
from common.data.shard_file import Shard, read_shard, shard_path, write_shard
from common.data.strata import strata_count, strata_of
from common.data.windows import Spans
from common.errors import DataError

FORMAT = 3  # counts up when the content of a shard changes for the same settings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShardSet:
    """The shards of one experiment below the folder `root`, which it shares with others.

    `rebalance` is what the experiment's algorithm asks for; without it there are no rebalanced
    sets. The dataset is only read to make what is missing; if the data is local, it is in the
    folder `local`.
    """

    root: Path
    experiment: Experiment
    rebalance: Rebalance | None = None
    local: Path | None = None

    @property
    def key(self) -> str:
        """A short name for everything the content of the shards depends on."""
        data, union = self.experiment.data, self.experiment.evaluation.union_samples
        shared = ("share", data.share, data.share_given, data.share_removed)
        settings = (
            data.dataset if data.schema is None else _content(data.schema),
            data.clients,
            data.partition,
            *_skew(data),
            *_parts(data),
            *(("max_samples", data.max_samples) if data.max_samples else ()),
            *(("bins", data.bins) if info_of(data).kind == "regression" else ()),
            *(shared if data.share else ()),
            *(("union", union) if union else ()),
        )
        text = msgspec.json.encode((FORMAT, self._seed, *settings))
        return hashlib.blake2b(text, digest_size=8).hexdigest()

    @property
    def folder(self) -> Path:
        """The folder of these shards alone."""
        return self.root / self.key

    def path(self, client_id: int) -> Path:
        """The file of a client's shard."""
        return shard_path(self.folder, client_id)

    def has(self, clients: Iterable[int]) -> bool:
        """Whether there is a file for each of these clients, so that no dataset is needed."""
        return all(self.path(client_id).exists() for client_id in clients)

    def ensure(self, clients: Iterable[int]) -> ShardSet:
        """This set, after making what is missing or damaged for these clients."""
        data, wanted = self.experiment.data, tuple(clients)
        for client_id in wanted:
            if not 0 <= client_id < data.clients:
                raise DataError(
                    f"client id {client_id} has no data; expected 0 to {data.clients - 1}"
                )
        if missing := [client_id for client_id in wanted if not self._has_shard(client_id)]:
            self._make(missing)
        if self.rebalance is not None:
            for client_id in wanted:
                self._ensure_rebalanced(client_id, self.rebalance)
        return self

    def load(self, client_id: int) -> Shard:
        """The shard of one client."""
        return read_shard(self.path(client_id))

    def load_rebalanced(self, client_id: int) -> Rebalanced:
        """The rebalanced set of one client."""
        assert self.rebalance is not None, "the algorithm asks for no rebalanced sets"
        return read_rebalanced(rebalanced_path(self.folder, client_id, self.rebalance))

    def ensure_shared(self) -> Samples:
        """The samples that `data.share` shares, after making their file if necessary."""
        path = self.folder / "shared.safetensors"
        if not _is_whole(path, read_arrays, "the shared samples"):
            dataset = load_data(self.experiment.data)
            shared = assignment_of(self.experiment.data, dataset, self._seed).shared
            write_arrays(path, _samples(dataset, shared).arrays("shared"))
            log.info("%d samples are shared", len(shared))
        samples = samples_of(read_arrays(path), "shared")
        if samples is None:
            raise DataError(f"{path} is damaged: it has no shared samples")
        return samples

    @property
    def _seed(self) -> int:
        return self.experiment.experiment.seed

    def _has_shard(self, client_id: int) -> bool:
        return _is_whole(self.path(client_id), read_shard, f"client {client_id}: its shard")

    def _make(self, clients: Iterable[int]) -> None:
        data, wanted = self.experiment.data, self.experiment.evaluation.union_samples
        if data.partition == "local":
            for client_id in clients:
                made, dataset = make_local_shard(data, self.local, client_id, self._seed)
                counts = class_counts(made.train, dataset)
                write_shard(self.path(client_id), replace(made, counts=counts))
            return
        dataset = load_data(data)
        assignment = assignment_of(data, dataset, self._seed)
        if data.share:
            log.warning(
                "data.share: %d samples leave their owners, and each client gets some of them",
                len(assignment.shared),
            )
        sizes, union = assignment.sizes(), None
        if wanted:
            strata = strata_of(data, dataset)
            indices = union_of(assignment, strata, wanted, self._seed)
            union = _samples(dataset, indices)
        for client_id in clients:
            train = _samples(dataset, assignment.train[client_id])
            test = _samples(dataset, assignment.test[client_id])
            counts = class_counts(train, dataset)
            write_shard(self.path(client_id), Shard(train, test, counts, sizes, union))
            log.info(
                "client %d: %d samples to train, %d to test", client_id, len(train), len(test)
            )

    def _ensure_rebalanced(self, client_id: int, rebalance: Rebalance) -> None:
        path = rebalanced_path(self.folder, client_id, rebalance)
        if _is_whole(path, read_rebalanced, f"client {client_id}: its rebalanced set"):
            return
        shard = self.load(client_id)
        make_rebalanced(
            path,
            shard.train,
            (shard.counts, shard.sizes),
            rebalance,
            seed=self._seed,
            client=client_id,
        )


def assignment_of(data: DataSection, dataset: Dataset, seed: int) -> Assignment:
    """Which samples of the dataset each client has."""
    first = dataset.inputs[0]
    return allot(
        data,
        strata_of(data, dataset),
        classes=strata_count(data, dataset),
        official=dataset.official,
        seed=seed,
        natural=dataset.natural,
        spans=Spans(first.starts, first.width) if isinstance(first, Windows) else None,
    )


def class_counts(samples: Samples, dataset: Dataset) -> Indices:
    """How many samples of each class; where there are no classes, how many."""
    if dataset.kind not in ("classification", "next-token"):
        return np.array([len(samples)], np.int64)
    return np.bincount(samples.targets, minlength=dataset.classes)


def _skew(data: DataSection) -> tuple[float, ...]:
    match data.partition:
        case "iid" | "local":
            return ()
        case "classes":
            return (data.classes_per_client,)
        case "dirichlet-client" | "ls":
            return (data.alpha,)
        case "dirichlet" | "qs" | "lsqs":
            return (data.alpha, data.min_size)
        case "natural":
            return (data.min_size,)


def _content(schema: Schema) -> str:
    """A name for the samples themselves, wherever their files are."""
    return hashlib.blake2b(msgspec.json.encode(schema), digest_size=16).hexdigest()


def _parts(data: DataSection) -> tuple[float | str, ...]:
    if data.test != "pool":
        return (data.test,)
    # text was once split at random: its shards of that time are not those meant
    is_text = info_of(data).kind == "next-token"
    return (
        data.train_ratio,
        *(("stratify",) if data.stratify else ()),
        *(("by place",) if is_text else ()),
    )


def _is_whole(path: Path, read: Callable[[Path], object], what: str) -> bool:
    if not path.exists():
        return False
    try:
        read(path)
    except DataError as error:
        log.warning("%s is damaged and made again: %s", what, error)
        return False
    return True


def _samples(dataset: Dataset, indices: Indices) -> Samples:
    inputs = tuple(part[indices] for part in dataset.inputs)
    return Samples(inputs, dataset.targets[indices])
