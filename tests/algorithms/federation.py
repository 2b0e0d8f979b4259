"""A tiny federation in one process: hand-made samples, real clients, every step in sight."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from torch import Tensor, nn

from common.algorithms.base import Algorithm, Client, Server, Trained, Update, update_of
from common.arrays import Arrays, digest
from common.config import (
    AlgorithmSection,
    DataSection,
    Experiment,
    ExperimentSection,
    ModelSection,
    Option,
    SelectionSection,
    TrainingSection,
)
from common.data.samples import Samples
from common.data.shard_file import Shard, write_shard
from common.data.shards import ShardSet
from common.experiment.resolve import first_model, server_of
from common.learning.device import use_one_thread
from common.wire.messages import Stage
from common.wire.tensors import check_arrays
from common.worker.bench import Workbench
from common.worker.client import Progress, TorchClient
from common.worker.snapshot_choice import base_snapshot
from tests.measuring import correct

HERE = "tests.algorithms.federation"
CLASSES = 10  # of the data set whose place the hand-made samples take
PLAIN = TrainingSection(epochs=2, batch_size=4, learning_rate=0.1, momentum=0.0)
HEAVY = TrainingSection(epochs=2, batch_size=4, learning_rate=0.05, momentum=0.9)

Shape = tuple[int, int, int]


# models


class Idle(nn.Module):
    """Does nothing, but has an array, for a part of a model without anything to learn."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("nothing", Tensor([0.0]))

    def forward(self, values: Tensor) -> Tensor:
        return values


def _model(base: Sequence[nn.Module], head: Sequence[nn.Module]) -> nn.Module:
    parts: OrderedDict[str, nn.Module]
    parts = OrderedDict(base=nn.Sequential(*base), head=nn.Sequential(*head))
    return nn.Sequential(parts)


def linear(_shape: Shape, classes: int) -> nn.Module:
    """Two layers without anything between them."""
    return _model([nn.Flatten(), nn.Linear(4, 3)], [nn.Linear(3, classes)])


def normed(_shape: Shape, classes: int) -> nn.Module:
    """Running statistics in the base and in the head."""
    base = [nn.Flatten(), nn.Linear(4, 3), nn.BatchNorm1d(3)]
    return _model(base, [nn.BatchNorm1d(3), nn.Linear(3, classes)])


def all_head(_shape: Shape, classes: int) -> nn.Module:
    """Softmax regression, which is convex, and all of it is head."""
    return _model([nn.Flatten(), Idle()], [nn.Linear(4, classes)])


def all_base(_shape: Shape, classes: int) -> nn.Module:
    """The same, and all of it is base."""
    return _model([nn.Flatten(), nn.Linear(4, classes)], [Idle()])


# samples


def samples(*counts: int, seed: int = 1) -> Samples:
    """Images of 2x2 pixels, so many of class 0, of class 1 and so on, mixed."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(counts)), counts)).astype(np.int64)
    centres = np.random.default_rng(0).integers(40, 216, (CLASSES, 4))
    images = centres[labels] + rng.integers(-40, 40, (len(labels), 4))
    return Samples((images.astype(np.uint8).reshape(-1, 1, 2, 2),), labels)


THREE = (samples(5, 3, 2, seed=1), samples(1, 2, 4, seed=2), samples(4, 4, 4, 1, seed=3))


# algorithms


def diverging() -> Algorithm:
    """FedAvg, in which client 1 sends something that is not a number."""

    def client_update(client: Client, _state: Arrays, download: Arrays) -> Trained:
        trained = update_of(client, client.train(download))
        if client.client_id != 1:
            return trained
        broken = {name: array * np.float32("nan") for name, array in trained.arrays.items()}
        return Trained({}, broken, trained.weights, trained.loss, 1, trained.personal)

    return Algorithm(name="diverging", client_update=client_update)


# rounds


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """Everything that a round was: what went down and came up, and what it left behind."""

    round_number: int
    download: Arrays
    trained: Mapping[int, Trained]
    state: Arrays

    def update(self, client: int) -> Arrays:
        return self.trained[client].arrays

    def kept(self, client: int) -> Arrays:
        return self.trained[client].state


@dataclass
class Federation:
    """Rounds of an algorithm, one after another."""

    folder: Path
    name: str
    options: Mapping[str, Option] = field(default_factory=dict)
    model: str = "linear"
    clients: Sequence[Samples] = THREE
    training: TrainingSection = PLAIN
    rounds: int = 10
    seed: int = 1
    participants: str = "all"
    batch_norm: Literal["shared", "local"] = "shared"

    def __post_init__(self) -> None:
        name = self.model if self.model == "dnn" else f"{HERE}:{self.model}"
        self.experiment = Experiment(
            experiment=ExperimentSection(seed=self.seed, rounds=self.rounds),
            algorithm=AlgorithmSection(name=self.name, options=dict(self.options)),
            model=ModelSection(name=name, hidden=5, batch_norm=self.batch_norm),
            data=DataSection(clients=len(self.clients)),
            training=self.training,
            selection=SelectionSection(participants=self.participants),
        )
        use_one_thread()
        write_shards(self.folder, self.experiment, self.clients)
        self.bench = self.new_bench()
        self.algorithm = self.bench.algorithm
        self.first = first_model(self.experiment)
        self.state = self.algorithm.server_init(server_of(self.experiment), self.first)
        self.download = self.algorithm.broadcast(self.state)
        self.history: list[Round] = []
        self._server: Server | None = None
        self.accepted: dict[int, int] = {}

    def new_bench(self) -> Workbench:
        """A place to train and to test, as in a process of its own."""
        return Workbench(
            "r",
            self.experiment,
            shards=self.folder / "shards",
            snapshots=self.folder / "snapshots",
            clients=range(len(self.clients)),
        )

    @property
    def done(self) -> int:
        return len(self.history)

    def client(self, client: int, progress: Progress | None = None) -> TorchClient:
        """A client in the round that comes next."""
        return self.bench.client(client, self.done + 1, progress or (lambda *_: None))

    def state_of(self, client: int) -> Arrays:
        """What a client continues from: the same choice as on a board."""
        rounds = {r.round_number for r in self.history if client in r.trained}
        base = base_snapshot(
            frozenset(rounds),
            self.done + 1,
            coupled=self.algorithm.coupled,
            accepted=self.accepted.get(client),
        )
        if base is None:
            return self.algorithm.client_init(self.client(client), self.download)
        return self.history[base - 1].kept(client)

    def server(self) -> Server:
        """The server in the round that comes next; made once for each."""
        if self._server is None or self._server.round != self.done + 1:
            self._server = server_of(
                self.experiment, round_number=self.done + 1, download=self.download
            )
        return self._server

    def train(self, client: int, progress: Progress | None = None) -> Trained:
        """A client's part of the next round."""
        server, download = self.server(), self.download
        if self.algorithm.private is not None:
            download = {**download, **self.algorithm.private(server, self.state, client)}
        bench = self.client(client, progress)
        trained = self.algorithm.client_update(bench, self.state_of(client), download)
        check_arrays(trained.arrays, self.algorithm.expects(server, self.download))
        return trained

    def round(
        self, selected: Sequence[int] | None = None, used: Sequence[int] | None = None
    ) -> Round:
        """One round with these clients, of whom only some are heard."""
        chosen = range(len(self.clients)) if selected is None else selected
        download, round_number, server = self.download, self.done + 1, self.server()
        trained = {client: self.train(client) for client in chosen}
        heard = sorted(chosen if used is None else used)
        if heard:
            updates = [Update(c, trained[c].arrays, trained[c].weights) for c in heard]
            self.state = self.algorithm.server_update(server, self.state, updates)
        self.download = self.algorithm.broadcast(self.state)
        self.accepted |= dict.fromkeys(heard, round_number)
        self.history.append(Round(round_number, download, trained, self.state))
        return self.history[-1]

    def run(self, rounds: int) -> Federation:
        """Some rounds with everybody."""
        for _ in range(rounds):
            self.round()
        return self

    def count(self, client: int) -> dict[Stage, int]:
        """Correct answers of a client's models before the next round."""
        bench = self.client(client)
        found = self.algorithm.stages(bench, self.state_of(client), self.download)
        return {stage: correct(model, bench.data) for stage, model in found.items()}

    @property
    def global_model(self) -> Arrays:
        return self.algorithm.global_model(self.state)

    @property
    def digest(self) -> str:
        """Of everything that the federation has learnt so far."""
        states = {
            f"{client}.{name}": array
            for client in range(len(self.clients))
            for name, array in self.state_of(client).items()
        }
        return digest({**self.state, **states})


def write_shards(folder: Path, experiment: Experiment, clients: Sequence[Samples]) -> None:
    """Put hand-made samples where a client looks for its own; all of them test, too."""
    shards = ShardSet(folder / "shards", experiment)
    sizes = np.array([len(own) for own in clients], np.int64)
    for client, own in enumerate(clients):
        counts = np.bincount(own.targets, minlength=CLASSES)
        write_shard(shards.path(client), Shard(own, own, counts, sizes, None))


def close(one: Arrays, other: Arrays, tolerance: float = 1e-6) -> bool:
    """Whether these are the same names with nearly the same values."""
    return one.keys() == other.keys() and all(
        np.allclose(array, other[name], rtol=tolerance, atol=tolerance)
        for name, array in one.items()
    )
