"""Where a client's turn is really computed, on a board and in a simulation alike.

Holds one network and the shard of one client at a time. Files come in and go out; when and for
whom is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from common.algorithms.base import Extra, LocalModel, Predictor
from common.arrays import Array, Arrays
from common.blueprint import algorithm_of, has_user_model, shapes_of, spec_of, user_model
from common.codec import ModelMeta, UpdateMeta, check_arrays, decode_tensors, encode_tensors
from common.config import Experiment
from common.messages import ClientMetrics, Count, Stage
from common.networks import Network, extract, load
from common.rng import generator
from common.shards import Shard, ensure_shards, load_shard
from common.steps import StepStore
from common.training import count_correct, train

Progress = Callable[[int, int, float], None]


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What a training turn tells besides its files."""

    loss: float
    samples: int
    bytes: int


class Workbench:
    """The tools to train and test the clients of one run."""

    def __init__(
        self,
        run: str,
        experiment: Experiment,
        *,
        shards: Path,
        steps: Path,
        clients: Sequence[int],
    ) -> None:
        self.run = run
        self.experiment = experiment
        self._algorithm = algorithm_of(experiment)
        self._shapes = shapes_of(experiment)
        self._network = _network(experiment)
        self._steps = StepStore(steps, run)
        self._shards = ensure_shards(
            shards,
            experiment.data,
            experiment.experiment.seed,
            clients,
            union=experiment.evaluation.union_samples,
            rebalance=self._algorithm.rebalance,
        )
        self._shard: tuple[int, Shard] | None = None
        self._download: tuple[Path, Arrays] | None = None
        self._loaded: Arrays | None = None

    def train(
        self, client: int, number: int, *, base: int | None, download: Path, progress: Progress
    ) -> TurnResult:
        """One client's training in one round; its step is on disk when this returns."""
        weights = self._weights(download)
        bench = self._client(client, number, progress)
        state = self._state(bench, base, weights)
        trained = self._algorithm.client_update(bench, state, weights)
        counts = None
        if "L2" in self.experiment.evaluation.stages:
            counts = _count(trained.personal, bench.shard)
        meta = UpdateMeta(
            run=self.run,
            round=number,
            client=client,
            samples=bench.samples,
            steps=trained.steps,
            weights=dict(trained.weights),
            loss=trained.loss,
        )
        update = encode_tensors(trained.arrays, meta)
        self._steps.write(client, number, state=trained.state, update=update, counts=counts)
        return TurnResult(trained.loss, bench.samples, len(update))

    def test(
        self, client: int, number: int, *, base: int | None, download: Path
    ) -> ClientMetrics:
        """Count the client's correct answers with the models of one round."""
        weights = self._weights(download)
        bench = self._client(client, number, _no_progress)
        state = self._state(bench, base, weights)
        wanted = self.experiment.evaluation.stages
        known: dict[int, Count] = {}
        counts: dict[Stage, Count] = {}
        for stage, predictor in self._algorithm.stages(bench, state, weights).items():
            if stage not in wanted:
                continue
            if id(predictor) not in known:
                known[id(predictor)] = _count(predictor, bench.shard)
            counts[stage] = known[id(predictor)]
        last = self._steps.record(client, base).counts if base is not None else None
        if last is not None:
            counts["L2"] = last
        return ClientMetrics(run=self.run, round=number, client=client, counts=counts)

    def _state(self, bench: _BenchClient, base: int | None, weights: Arrays) -> Arrays:
        if base is None:
            return self._algorithm.client_init(bench, weights)
        return self._steps.state(bench.client, base)

    def _client(self, client: int, number: int, progress: Progress) -> _BenchClient:
        if self._shard is None or self._shard[0] != client:
            self._shard = None
            self._shard = (client, load_shard(self._shards, client))
        return _BenchClient(self, client, number, self._shard[1], progress)

    def _weights(self, download: Path) -> Arrays:
        if self._download is None or self._download[0] != download:
            self._download = None
            arrays, _ = decode_tensors(download.read_bytes(), ModelMeta)
            check_arrays(arrays, self._shapes)
            self._download = (download, arrays)
        return self._download[1]

    def network(self, arrays: Arrays) -> nn.Module:
        """The one network in memory, with these arrays in it."""
        if self._loaded is not arrays:
            load(self._network, arrays)
            self._loaded = arrays
        return self._network

    def trained(self) -> dict[str, Array]:
        """What a training in place has made of the network."""
        arrays = extract(self._network)
        self._loaded = arrays
        return arrays


class _BenchClient:
    """The client an algorithm runs on (see `common.algorithms.base.Client`)."""

    def __init__(
        self, bench: Workbench, client: int, number: int, shard: Shard, progress: Progress
    ) -> None:
        self.client = client
        self.shard = shard
        self._bench = bench
        self._number = number
        self._progress = progress

    @property
    def samples(self) -> int:
        return len(self.shard.train)

    @property
    def counts(self) -> Array:
        return self.shard.counts

    def train(
        self,
        arrays: Arrays,
        *,
        only: Sequence[str] = ("base", "head"),
        epochs: int | None = None,
        extra: Extra | None = None,
        purpose: str = "shuffle",
    ) -> LocalModel:
        experiment = self._bench.experiment
        stats = train(
            self._bench.network(arrays),
            self.shard.train,
            experiment.training,
            generator(experiment.experiment.seed, purpose, self._number, self.client),
            only=only,
            epochs=epochs,
            number=self._number,
            extra=extra,
            progress=self._progress,
        )
        return LocalModel(self._bench.trained(), stats.loss, stats.steps)

    def predictor(self, arrays: Arrays) -> Predictor:
        return lambda images: self._bench.network(arrays)(images)


def _network(experiment: Experiment) -> nn.Module:
    if has_user_model(experiment):
        return user_model(experiment)
    return Network(spec_of(experiment))


def _count(predictor: Predictor, shard: Shard) -> Count:
    return Count(correct=count_correct(predictor, shard.test), total=len(shard.test))


def _no_progress(_epoch: int, _epochs: int, _loss: float) -> None:
    return None
