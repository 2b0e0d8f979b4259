"""All shards of an experiment in a folder, with a manifest, ready to be copied to boards."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec

from common.config import DataSection, Experiment
from common.data.rebalance import Rebalance
from common.data.shards import ShardSet
from common.disk.atomic import disk_errors, write_atomic
from common.errors import UsageError
from common.experiment.resolve import algorithm_of
from common.ids import show_ids
from fl_server.data.distribution import Distribution, distribution_of, rebalanced

MANIFEST = "manifest.json"


class RebalancedClient(msgspec.Struct, frozen=True, kw_only=True):
    """A client's rebalanced set: its samples, and how many of them are not augmented."""

    samples: int
    effective: int


class ClientManifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a client has: samples to train and to test, of each class."""

    client: int
    samples: int
    train: list[int]
    test: list[int]
    rebalanced: RebalancedClient | None = None


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a folder of shards, and what it depends on."""

    key: str
    seed: int
    data: DataSection
    union_samples: int
    rebalance: dict[str, str | int] | None
    shared: int
    clients: list[ClientManifest]
    sha256: dict[str, str]


def prepare(experiment: Experiment, folder: Path, clients: Sequence[int]) -> Manifest:
    """Write the shards of these clients, and a manifest of all; what is whole is kept."""
    data, rebalance = experiment.data, algorithm_of(experiment).rebalance
    shards = ShardSet(folder, experiment, rebalance)
    if outside := sorted(set(clients) - set(range(data.clients))):
        raise UsageError(
            f"clients {show_ids(outside)} have no data; expected 0-{data.clients - 1}"
        )
    _refuse_other_content(folder, shards.key)
    shards.ensure(clients)
    if data.share:
        shards.ensure_shared()
    distribution = distribution_of(experiment)
    manifest = Manifest(
        key=shards.key,
        seed=experiment.experiment.seed,
        data=data,
        union_samples=experiment.evaluation.union_samples,
        rebalance=None if rebalance is None else asdict(rebalance),
        shared=distribution.shared,
        clients=_clients(distribution, rebalance),
        sha256={
            path.name: _sha256(path) for path in sorted(shards.folder.glob("*.safetensors"))
        },
    )
    write_atomic(folder / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
    return manifest


def _refuse_other_content(folder: Path, key: str) -> None:
    with disk_errors(folder):
        names = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    for name in names:
        if name not in (key, MANIFEST):
            raise UsageError(
                f"{folder} already holds {name}, which is not of this experiment's data "
                f"(key {key}); choose an empty folder"
            )


def _clients(distribution: Distribution, rebalance: Rebalance | None) -> list[ClientManifest]:
    made = None if rebalance is None else rebalanced(distribution, rebalance)
    return [
        ClientManifest(
            client=client,
            samples=int(distribution.sizes[client]),
            train=distribution.train[client].tolist(),
            test=distribution.test[client].tolist(),
            rebalanced=None
            if made is None
            else RebalancedClient(
                samples=int(made.sizes[client]), effective=int(made.effective[client])
            ),
        )
        for client in range(len(distribution.train))
    ]


def _sha256(path: Path) -> str:
    with disk_errors(path), path.open("rb") as file:
        state = hashlib.sha256()
        while block := file.read(1 << 20):
            state.update(block)
    return state.hexdigest()
