"""The one local training loop, and counting correct predictions.

What an algorithm varies comes in as arguments; shuffling comes from the generator given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from common.arrays import part_of
from common.config import TrainingSection
from common.samples import Images, Samples

Tensors: TypeAlias = tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class TrainingStats:
    """How a training went: mean loss over the last epoch (not finite if it diverged)."""

    loss: float
    steps: int


def train(  # noqa: PLR0913 - all that algorithms vary comes in here, by name
    network: nn.Module,
    samples: Samples,
    settings: TrainingSection,
    rng: np.random.Generator,
    *,
    only: Sequence[str] = ("base", "head"),
    epochs: int | None = None,
    extra: Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]] | None = None,
    logits: Callable[[Tensor], Tensor] | None = None,
    progress: Callable[[int, int, float], None] | None = None,
) -> TrainingStats:
    """Train the parts of `network` named in `only`, in place, with SGD.

    `extra(parameters)` gives terms to add to the gradients, by name, before weight decay and
    momentum; `logits(images)` stands in for the network's own forward pass; `progress(epoch,
    epochs, loss)` hears of every finished epoch. Momentum starts from nothing in every call.
    """
    epochs = settings.epochs if epochs is None else epochs
    forward = network if logits is None else logits
    labels = torch.tensor(samples.labels)
    loss, steps = float("nan"), 0
    with _trainable(network, only) as parameters:
        sgd = _Sgd(tuple(parameters.values()), settings)

        def step(batch: npt.NDArray[np.int64]) -> float:
            outputs = forward(normalised(samples.images[batch]))
            mean = functional.cross_entropy(outputs, labels[torch.from_numpy(batch)])
            gradients = torch.autograd.grad(mean, sgd.parameters)
            sgd.step(_with_terms(parameters, gradients, extra))
            return mean.item() * len(batch)

        for epoch in range(1, epochs + 1):
            batches = _batches(rng.permutation(len(samples)), settings.batch_size)
            loss = sum(map(step, batches)) / len(samples)
            steps += len(batches)
            if progress is not None:
                progress(epoch, epochs, loss)
    return TrainingStats(loss, steps)


def count_correct(
    predict: Callable[[Tensor], Tensor], samples: Samples, batch: int = 100
) -> int:
    """How many samples have their largest logit at their own class."""
    labels = torch.tensor(samples.labels)
    correct = 0
    with torch.inference_mode():
        for start in range(0, len(samples), batch):
            part = slice(start, start + batch)
            answers = predict(normalised(samples.images[part])).argmax(dim=1)
            correct += int((answers == labels[part]).sum())
    return correct


def normalised(images: Images) -> Tensor:
    """Bytes 0..255 as float32 between -1 and 1, in memory of their own."""
    return torch.tensor(images, dtype=torch.float32).div_(255).sub_(0.5).div_(0.5)


def use_one_thread() -> None:
    """Let torch compute on one thread: processes share cores far better than threads do."""
    torch.set_num_threads(1)


class _Sgd:
    """SGD with momentum and weight decay, as in torch.optim.

    Our own because the first optimizer of torch.optim imports the compiler: 3.5 s and 71 MB.
    """

    def __init__(self, parameters: Tensors, settings: TrainingSection) -> None:
        self.parameters = parameters
        self._settings = settings
        self._velocity: Tensors | None = None

    @torch.no_grad()
    def step(self, gradients: Tensors) -> None:
        """g += wd p; v = rho v + g (at first v = g); p -= lr v."""
        rate, decay = self._settings.learning_rate, self._settings.weight_decay
        if decay:
            gradients = torch._foreach_add(gradients, self.parameters, alpha=decay)
        if self._settings.momentum:
            gradients = self._accelerated(gradients)
        torch._foreach_add_(self.parameters, gradients, alpha=-rate)

    def _accelerated(self, gradients: Tensors) -> Tensors:
        if self._velocity is None:
            # clones, because autograd may hand out one tensor for two parameters
            self._velocity = tuple(gradient.clone() for gradient in gradients)
        else:
            torch._foreach_mul_(self._velocity, self._settings.momentum)
            torch._foreach_add_(self._velocity, gradients)
        return self._velocity


@contextmanager
def _trainable(network: nn.Module, only: Sequence[str]) -> Iterator[dict[str, Tensor]]:
    """The parameters of these parts by name; within, no other parameter needs a gradient."""
    before = {name: value.requires_grad for name, value in network.named_parameters()}
    parameters = dict(network.named_parameters())
    for name, parameter in parameters.items():
        parameter.requires_grad_(part_of(name) in only)
    try:
        yield {name: value for name, value in parameters.items() if part_of(name) in only}
    finally:
        for name, parameter in parameters.items():
            parameter.requires_grad_(before[name])


def _batches(order: npt.NDArray[np.int64], size: int) -> list[npt.NDArray[np.int64]]:
    """Cut into pieces of `size`; the last may be smaller, so that no sample is left out."""
    return [order[start : start + size] for start in range(0, len(order), size)]


def _with_terms(
    parameters: Mapping[str, Tensor],
    gradients: Tensors,
    extra: Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]] | None,
) -> Tensors:
    if extra is None:
        return gradients
    with torch.no_grad():
        terms = extra(parameters)
        return tuple(
            gradient + terms[name] if name in terms else gradient
            for name, gradient in zip(parameters, gradients, strict=True)
        )
