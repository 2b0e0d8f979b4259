"""What the client half of an algorithm works with: its client, and networks as functions.

Protocols only, so that nothing here needs torch; `common/worker/client.py` implements them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from common.arrays import Array, Arrays
from common.config import TrainingSection
from common.data.rebalance import Rebalanced
from common.data.samples import Samples

if TYPE_CHECKING:
    from torch import Tensor

MODEL = ("base", "head")

Batch: TypeAlias = "Tensor | tuple[Tensor, ...]"
"""The inputs of some samples; a tuple if the network takes several."""

Predictor: TypeAlias = "Callable[[Batch], Tensor]"
Extra: TypeAlias = "Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]"
After: TypeAlias = "Callable[[Mapping[str, Tensor], Mapping[str, Tensor]], None]"
Loss: TypeAlias = "Callable[[Net, Batch, Tensor], Tensor | None]"
Logits: TypeAlias = "Callable[[Net, Batch], Tensor]"


class Net(Protocol):
    """Arrays as torch modules: the model, copies of its parts, and single tensors."""

    @property
    def has_norm(self) -> bool:
        """Whether it has running statistics, and so cannot train on a single sample."""

    def __call__(self, inputs: Batch) -> Tensor:
        """The model's logits: its head on its base."""

    def part(self, name: str) -> Callable[[Batch], Tensor]:
        """`base`, `head`, or a copy of one of them that the algorithm has declared."""

    def tensor(self, name: str) -> Tensor:
        """One array by its name."""


def rows(inputs: Batch, which: slice) -> Batch:
    """Some of the samples of a batch."""
    return tuple(part[which] for part in inputs) if isinstance(inputs, tuple) else inputs[which]


@dataclass(frozen=True, slots=True, eq=False)
class LocalModel:
    """The result of a local training: all arrays given to it, with new values where trained."""

    arrays: dict[str, Array]
    loss: float
    steps: int


class Client(Protocol):
    """What an algorithm may ask of the client it runs on."""

    @property
    def client_id(self) -> int:
        """The client's id."""

    @property
    def round(self) -> int:
        """The round, counted from 1; a test in it is of the model before the round."""

    @property
    def rounds(self) -> int:
        """How many rounds the experiment has."""

    @property
    def training(self) -> TrainingSection:
        """The experiment's settings of local training."""

    @property
    def learning_rate(self) -> float:
        """The learning rate of this round."""

    @property
    def data(self) -> Samples:
        """The client's training samples."""

    @property
    def samples(self) -> int:
        """How many training samples the client has."""

    @property
    def counts(self) -> Array:
        """How many training samples of each class."""

    @property
    def sizes(self) -> Array:
        """How many training samples each client of the experiment has."""

    @property
    def buffers(self) -> frozenset[str]:
        """The model's arrays that are no parameters: running statistics, counters."""

    @property
    def rebalanced(self) -> Rebalanced:
        """The samples that the algorithm's `rebalance` asks for."""

    def rng(self, purpose: str) -> np.random.Generator:
        """Randomness of this client that is the same in every round."""

    def train(
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
        """Train copies of the arrays whose part is in `only`; all others stay as they are.

        By default: the task's loss of the model on the client's training samples, for
        the epochs or steps of the settings. `special` has settings for single parts.
        `loss(net, inputs, targets)` is another loss (None: skip the batch); `extra(parameters)`
        gives terms to add to the gradients, before momentum; `after(parameters, gradients)`
        is called after every step; `purpose` names the randomness of the shuffles. The
        optimizer starts anew (see `training.optimizer_state`), but continues where the last
        training of the same `phase` in this job ended, if there was one.
        """

    def tensors(self, arrays: Arrays) -> Mapping[str, Tensor]:
        """Copies of arrays as tensors."""

    def predictor(self, arrays: Arrays, logits: Logits | None = None) -> Predictor:
        """A model ready to classify; `logits` replaces the way it computes its logits."""

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The task's loss of some outputs: its mean over the batch."""

    def mean_loss(self, arrays: Arrays, samples: Samples) -> float:
        """The task's loss of a model: its mean over some samples."""
