"""Where a client's turn is really computed, on a board and in a simulation alike.

Holds one network, and shards as long as they are small. Files come in and go out; when and for
whom is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from common.algorithms.base import (
    MODEL,
    After,
    Extra,
    LocalModel,
    Logits,
    Loss,
    Predictor,
)
from common.arrays import Array, Arrays, from_under, parts, under
from common.blueprint import (
    algorithm_of,
    first_model,
    has_user_model,
    keeps_state,
    server_of,
    spec_of,
    user_model,
)
from common.codec import ModelMeta, UpdateMeta, check_arrays, decode_tensors, encode_tensors
from common.config import Experiment, TrainingSection
from common.device import device
from common.flusher import Flusher
from common.messages import ClientMetrics, Count, Stage
from common.networks import Network, extract, load
from common.optimizers import learning_rate
from common.orders import Turn
from common.rebalanced import Rebalanced
from common.rng import generator
from common.samples import Samples
from common.shards import Shard, ensure_shards, load_rebalanced, load_shard, shard_path
from common.steps import StepStore
from common.training import Plan, count_correct, mean_loss, train
from common.whole import Whole

SHARD_BYTES = 64 * 1024**2  # of shards that need not be read again in the next round
MEMORY = "optimizer"  # the part of a client's state that its optimizers remember
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
        self.algorithm = algorithm_of(experiment)
        self._like = self._first_download()
        self._network = network_of(experiment)
        self._nets: dict[tuple[str, ...], Whole] = {}
        self._steps = StepStore(steps, run)
        self._keeps_state = keeps_state(experiment)
        self._flusher = Flusher()
        self.shards = ensure_shards(
            shards,
            experiment.data,
            experiment.experiment.seed,
            clients,
            union=experiment.evaluation.union_samples,
            rebalance=self.algorithm.rebalance,
        )
        self._kept: dict[int, Shard] = {}  # used last, last
        self._download: tuple[Path, Arrays] | None = None
        self._loaded: Arrays | None = None

    def _first_download(self) -> Arrays:
        """Arrays with the names, shapes and kinds of every download."""
        server = server_of(self.experiment)
        model = first_model(self.experiment)
        return self.algorithm.broadcast(self.algorithm.server_init(server, model))

    def train(self, order: Turn, progress: Progress) -> TurnResult:
        """One client's training in one round; its step is on disk when this returns."""
        client, number = order.client, order.round
        weights = self._weights(Path(order.download))
        bench = self._client(client, number, progress)
        state = self._state(bench, order.base, weights)
        if order.private:
            weights = {**weights, **self._read(Path(order.private))}
        trained = self.algorithm.client_update(bench, state, weights)
        counts = union = None
        if "L2" in self.experiment.evaluation.stages:
            counts = _count(trained.personal, bench.shard.test)
            if bench.shard.union is not None:
                union = _count(trained.personal, bench.shard.union)
        meta = UpdateMeta(
            run=self.run,
            round=number,
            client=client,
            samples=bench.samples,
            steps=trained.steps,
            weights=dict(trained.weights),
            loss=trained.loss,
            values=dict(trained.values),
        )
        update = encode_tensors(trained.arrays, meta, self.experiment.communication.encoding)
        state = {**trained.state, **bench.memory}
        self._steps.write(
            client,
            number,
            state=state,
            update=update,
            counts=counts,
            union=union,
            durable=self._keeps_state,
        )
        if not self._keeps_state:  # it can be computed again, so nobody waits for the disk
            self._flusher.add(self._steps.path(client, number))
        return TurnResult(trained.loss, bench.samples, len(update))

    def test(self, order: Turn) -> ClientMetrics:
        """Count the client's correct answers with the models of one round."""
        client, number = order.client, order.round
        weights = self._weights(Path(order.download))
        bench = self._client(client, number, _no_progress)
        state = self._state(bench, order.base, weights)
        models = self.algorithm.stages(bench, state, weights)
        counts = self._counts(models, bench.shard.test)
        union: dict[Stage, Count] = {}
        if bench.shard.union is not None and self._union_is_due(number):
            own: dict[Stage, Predictor] = {**models}
            own.pop("G", None)
            union = self._counts(own, bench.shard.union)
        if order.base is not None:
            last = self._steps.record(client, order.base)
            if last.counts is not None:
                counts["L2"] = last.counts
            if last.union is not None and self._union_is_due(number):
                union["L2"] = last.union
        return ClientMetrics(
            run=self.run, round=number, client=client, counts=counts, union=union
        )

    def _union_is_due(self, number: int) -> bool:
        every, rounds = (
            self.experiment.evaluation.union_every,
            self.experiment.experiment.rounds,
        )
        return (number - 1) % every == 0 or number > rounds

    def _counts(
        self, models: Mapping[Stage, Predictor], samples: Samples
    ) -> dict[Stage, Count]:
        """Counts for each stage that is wanted; a model of two stages is tested once."""
        known: dict[int, Count] = {}
        counts: dict[Stage, Count] = {}
        for stage, predictor in models.items():
            if stage in self.experiment.evaluation.stages:
                if id(predictor) not in known:
                    known[id(predictor)] = _count(predictor, samples)
                counts[stage] = known[id(predictor)]
        return counts

    def _state(self, bench: _BenchClient, base: int | None, weights: Arrays) -> Arrays:
        """What the client goes on from; what its optimizers remember is for it alone."""
        if base is None:
            return self.algorithm.client_init(bench, weights)
        kept = self._steps.state(bench.number, base)
        bench.memory = parts(kept, [MEMORY])
        return {name: array for name, array in kept.items() if name not in bench.memory}

    def _client(self, client: int, number: int, progress: Progress) -> _BenchClient:
        return _BenchClient(self, client, number, self._shard(client), progress)

    def _shard(self, client: int) -> Shard:
        shard = self._kept.pop(client, None)
        if shard is None:
            size = shard_path(self.shards, client).stat().st_size
            while (
                self._kept and size + sum(s.nbytes for s in self._kept.values()) > SHARD_BYTES
            ):
                del self._kept[next(iter(self._kept))]
            shard = load_shard(self.shards, client)
        self._kept[client] = shard
        return shard

    def _weights(self, download: Path) -> Arrays:
        if self._download is None or self._download[0] != download:
            self._download = None
            arrays = self._read(download)
            check_arrays(arrays, self._like)
            self._download = (download, arrays)
        return self._download[1]

    def _read(self, download: Path) -> dict[str, Array]:
        encoding = self.experiment.communication.encoding
        return decode_tensors(download.read_bytes(), ModelMeta, encoding)[0]

    def net(self, arrays: Arrays) -> Whole:
        """The one network in memory (and what the algorithm adds to it) with these arrays."""
        names = tuple(sorted(arrays))
        if names not in self._nets:
            with torch.inference_mode(mode=False):  # a test may come first, training later
                self._nets[names] = Whole(self._network, arrays, self.algorithm.copies)
        if self._loaded is not arrays:
            load(self._nets[names], arrays)
            self._loaded = arrays
        return self._nets[names]

    def net_to_train(self, arrays: Arrays) -> Whole:
        """The same, to be changed: unless `trained` is called, nobody knows what is in it."""
        net = self.net(arrays)
        self._loaded = None
        return net

    def trained(self, net: Whole) -> dict[str, Array]:
        """What a training in place has made of the network."""
        arrays = extract(net)
        self._loaded = arrays
        return arrays


class _BenchClient:
    """The client an algorithm runs on (see `common.algorithms.base.Client`)."""

    def __init__(
        self, bench: Workbench, client: int, number: int, shard: Shard, progress: Progress
    ) -> None:
        self.number = client
        self.round = number
        self.shard = shard
        self._bench = bench
        self._progress = progress
        self._rebalanced: Rebalanced | None = None
        self.memory: dict[str, Array] = {}
        self._memory_of_turn: dict[str, Array] = {}

    @property
    def rounds(self) -> int:
        return self._bench.experiment.experiment.rounds

    @property
    def training(self) -> TrainingSection:
        return self._bench.experiment.training

    @property
    def learning_rate(self) -> float:
        return learning_rate(self.training, self.round)

    @property
    def data(self) -> Samples:
        return self.shard.train

    @property
    def samples(self) -> int:
        return len(self.shard.train)

    @property
    def counts(self) -> Array:
        return self.shard.counts

    @property
    def sizes(self) -> Array:
        return self.shard.sizes

    @property
    def rebalanced(self) -> Rebalanced:
        assert self._bench.algorithm.rebalance is not None, (
            "the algorithm asks for no such data"
        )
        if self._rebalanced is None:
            self._rebalanced = load_rebalanced(
                self._bench.shards, self.number, self._bench.algorithm.rebalance
            )
        return self._rebalanced

    def rng(self, purpose: str) -> np.random.Generator:
        return generator(self._bench.experiment.experiment.seed, purpose, 0, self.number)

    def train(  # noqa: PLR0913 - all that algorithms vary, by name
        self,
        arrays: Arrays,
        *,
        only: Sequence[str] = MODEL,
        samples: Samples | None = None,
        epochs: int | None = None,
        steps: int | None = None,
        settings: TrainingSection | None = None,
        special: Mapping[str, TrainingSection] | None = None,
        loss: Loss | None = None,
        extra: Extra | None = None,
        after: After | None = None,
        purpose: str = "shuffle",
        phase: str | None = None,
    ) -> LocalModel:
        net, seed = self._bench.net_to_train(arrays), self._bench.experiment.experiment.seed
        settings = self.training if settings is None else settings
        word, memory = f"{MEMORY}.{phase or purpose}", None
        held = self.memory if settings.optimizer_state == "keep" else self._memory_of_turn
        if settings.optimizer_state == "keep" or phase is not None:
            memory = dict(self.tensors(from_under(word, held)))
        stats = train(
            net,
            self.data if samples is None else samples,
            settings,
            generator(seed, purpose, self.round, self.number),
            Plan(tuple(only), epochs, steps, special or {}, loss, extra, after),
            number=self.round,
            memory=memory,
            progress=self._progress,
        )
        if memory is not None:
            kept = {name: tensor.cpu().numpy().copy() for name, tensor in memory.items()}
            held.update(under(word, kept))
        return LocalModel(self._bench.trained(net), stats.loss, stats.steps)

    def tensors(self, arrays: Arrays) -> dict[str, Tensor]:
        return {name: torch.tensor(array, device=device()) for name, array in arrays.items()}

    def predictor(self, arrays: Arrays, logits: Logits | None = None) -> Predictor:
        if logits is None:
            return lambda inputs: self._bench.net(arrays)(inputs)
        return lambda inputs: logits(self._bench.net(arrays), inputs)

    def mean_loss(self, arrays: Arrays, samples: Samples) -> float:
        return mean_loss(self._bench.net(arrays), samples)


def network_of(experiment: Experiment) -> nn.Module:
    """The network an experiment trains, on the device of this process."""
    if has_user_model(experiment):
        return user_model(experiment).to(device())
    return Network(spec_of(experiment)).to(device())


def _count(predictor: Predictor, samples: Samples) -> Count:
    return Count(correct=count_correct(predictor, samples), total=len(samples))


def _no_progress(_epoch: int, _epochs: int, _loss: float) -> None:
    return None
