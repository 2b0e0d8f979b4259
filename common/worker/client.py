"""The client that an algorithm runs on, with torch (see `common.algorithms.base.Client`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from common.algorithms.base import (
    MODEL,
    After,
    Extra,
    LocalModel,
    Logits,
    Loss,
    Predictor,
)
from common.arrays import Array, Arrays, from_under, under
from common.config import TrainingSection
from common.data.rebalance import Rebalanced
from common.data.samples import Samples
from common.data.shard_file import Shard
from common.learning.device import device
from common.learning.evaluation import mean_loss
from common.learning.optimizers import learning_rate
from common.learning.training import Plan, TrainingStats, train
from common.rng import generator

MEMORY = "optimizer"  # the part of a client's state that its optimizers remember
Progress = Callable[[int, int, float], None]

if TYPE_CHECKING:
    from common.worker.bench import Workbench


@dataclass(slots=True)
class Budget:
    """How much a client may train in a job: so many steps, or else by the clock."""

    seconds: float = 0.0
    most_steps: int = 0
    began: float = field(default_factory=time.monotonic)
    done: int = 0
    planned: int = 0

    def is_over(self, steps: int) -> bool:
        """Whether so many steps more are enough."""
        if self.most_steps:
            return self.done + steps >= self.most_steps
        return bool(self.seconds) and time.monotonic() - self.began >= self.seconds

    def note(self, stats: TrainingStats) -> None:
        """A training of the job is over."""
        self.done += stats.steps
        self.planned += stats.planned

    def scaled(self, weights: Mapping[str, float]) -> dict[str, float]:
        """How much an update counts: by the share of its steps, if some had to be left out."""
        limited = self.seconds and 0 < self.done < self.planned
        share = self.done / self.planned if limited else 1.0
        return {part: weight * share for part, weight in weights.items()}


class TorchClient:
    """The client an algorithm runs on (see `common.algorithms.base.Client`)."""

    def __init__(
        self,
        bench: Workbench,
        client_id: int,
        round_number: int,
        shard: Shard,
        progress: Progress,
    ) -> None:
        self.client_id = client_id
        self.round = round_number
        self.shard = shard
        self._bench = bench
        self._progress = progress
        self._rebalanced: Rebalanced | None = None
        self.memory: dict[str, Array] = {}
        self._job_memory: dict[str, Array] = {}
        self.budget = Budget()

    @property
    def rounds(self) -> int:
        """How many rounds the experiment has."""
        return self._bench.experiment.experiment.rounds

    @property
    def training(self) -> TrainingSection:
        """The experiment's settings of local training."""
        return self._bench.experiment.training

    @property
    def learning_rate(self) -> float:
        """The rate of this round."""
        return learning_rate(self.training, self.round)

    @property
    def data(self) -> Samples:
        """The client's training samples."""
        return self.shard.train

    @property
    def samples(self) -> int:
        """How many training samples the client has."""
        return len(self.shard.train)

    @property
    def counts(self) -> Array:
        """How many training samples of each class."""
        return self.shard.counts

    @property
    def sizes(self) -> Array:
        """How many training samples each client of the experiment has."""
        return self.shard.sizes

    @property
    def buffers(self) -> frozenset[str]:
        """The model's arrays that are no parameters: running statistics, counters."""
        return self._bench.buffers

    @property
    def rebalanced(self) -> Rebalanced:
        """The samples that the algorithm's `rebalance` asks for."""
        if self._rebalanced is None:
            self._rebalanced = self._bench.rebalanced(self.client_id)
        return self._rebalanced

    def rng(self, purpose: str) -> np.random.Generator:
        """Randomness of this client that is the same in every round."""
        return generator(self._bench.experiment.experiment.seed, purpose, 0, self.client_id)

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
        """Train copies of these arrays; see `common.algorithms.base.Client.train`."""
        net, seed = self._bench.net_to_train(arrays), self._bench.experiment.experiment.seed
        settings = self.training if settings is None else settings
        part, memory = f"{MEMORY}.{phase or purpose}", None
        held = self.memory if settings.optimizer_state == "keep" else self._job_memory
        if settings.optimizer_state == "keep" or phase is not None:
            memory = dict(self.tensors(from_under(part, held)))
        stats = train(
            net,
            self.data if samples is None else samples,
            settings,
            generator(seed, purpose, self.round, self.client_id),
            Plan(tuple(only), epochs, steps, special or {}, loss, extra, after),
            loss=self._bench.measure.loss.mean,
            round_number=self.round,
            memory=memory,
            progress=self._progress,
            stop=self.budget.is_over,
        )
        self.budget.note(stats)
        if memory is not None:
            kept = {name: tensor.cpu().numpy().copy() for name, tensor in memory.items()}
            held.update(under(part, kept))
        return LocalModel(self._bench.trained(net), stats.loss, stats.steps)

    def tensors(self, arrays: Arrays) -> dict[str, Tensor]:
        """Copies of arrays, to compute with."""
        return {name: torch.tensor(array, device=device()) for name, array in arrays.items()}

    def predictor(self, arrays: Arrays, logits: Logits | None = None) -> Predictor:
        """A model, ready to classify."""
        if logits is None:
            return lambda inputs: self._bench.net(arrays)(inputs)
        return lambda inputs: logits(self._bench.net(arrays), inputs)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The task's loss: the mean over a batch."""
        return self._bench.measure.loss.mean(outputs, targets)

    def mean_loss(self, arrays: Arrays, samples: Samples) -> float:
        """The task's loss of a model: the mean over some samples."""
        return mean_loss(self._bench.net(arrays), samples, self._bench.measure.loss)
