"""The one local training loop, and counting correct predictions.

What an algorithm varies comes in as arguments; all chance comes from the generator given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from common.arrays import part_of
from common.chance import torch_chance_from
from common.config import TrainingSection
from common.optimizers import Tensors, build_optimizer, clipped, learning_rate
from common.samples import Images, Samples


@dataclass(frozen=True, slots=True)
class TrainingStats:
    """How a training went: mean loss over the last pass (not finite if it diverged)."""

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
    number: int = 1,
    extra: Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]] | None = None,
    logits: Callable[[Tensor], Tensor] | None = None,
    progress: Callable[[int, int, float], None] | None = None,
) -> TrainingStats:
    """Train the parts of `network` named in `only`, in place; it is in evaluation mode after.

    `epochs`, if given, holds whatever the settings say; `number` is the round, for the decay
    of the rate; `extra(parameters)` gives terms to add to the gradients, by name, before
    clipping, weight decay and momentum; `logits(images)` stands in for the network's own
    forward pass; `progress(pass, passes, loss)` hears of every finished pass over the
    samples. The optimizer starts from nothing in every call.
    """
    forward = network if logits is None else logits
    labels = torch.tensor(samples.labels)
    loss, steps = float("nan"), 0
    planned = _planned_steps(len(samples), settings, epochs)
    passes = math.ceil(planned / _steps_per_pass(len(samples), settings))
    with torch_chance_from(rng), _trainable(network, only) as parameters:
        trained = tuple(parameters.values())
        optimizer = build_optimizer(trained, settings, learning_rate(settings, number))

        def step(batch: npt.NDArray[np.int64]) -> float:
            outputs = forward(normalised(samples.images[batch]))
            mean = functional.cross_entropy(outputs, labels[torch.from_numpy(batch)])
            gradients = torch.autograd.grad(mean, trained)
            gradients = _with_terms(parameters, gradients, extra)
            if settings.grad_clip:
                gradients = clipped(gradients, settings.grad_clip)
            optimizer.step(gradients)
            return mean.item() * len(batch)

        for number_of_pass in range(1, passes + 1):
            batches = _batches(rng.permutation(len(samples)), settings.batch_size)
            batches = batches[: planned - steps]
            loss = sum(map(step, batches)) / sum(map(len, batches))
            steps += len(batches)
            if progress is not None:
                progress(number_of_pass, passes, loss)
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
    """Bytes 0..255 as float32 between -1 and 1, in memory of their own.

    Text [n, characters] holds numbers of symbols, which stay as they are.
    """
    if images.ndim == 2:
        return torch.tensor(images, dtype=torch.int64)
    return torch.tensor(images, dtype=torch.float32).div_(255).sub_(0.5).div_(0.5)


def use_one_thread() -> None:
    """Let torch compute on one thread: processes share cores far better than threads do."""
    torch.set_num_threads(1)


@contextmanager
def _trainable(network: nn.Module, only: Sequence[str]) -> Iterator[dict[str, Tensor]]:
    """The parameters of these parts by name; within, no other parameter needs a gradient.

    Within, the network is in training mode, too; afterwards it is in evaluation mode.
    """
    before = {name: value.requires_grad for name, value in network.named_parameters()}
    parameters = dict(network.named_parameters())
    for name, parameter in parameters.items():
        parameter.requires_grad_(part_of(name) in only)
    network.train()
    try:
        yield {name: value for name, value in parameters.items() if part_of(name) in only}
    finally:
        network.eval()
        for name, parameter in parameters.items():
            parameter.requires_grad_(before[name])


def _planned_steps(samples: int, settings: TrainingSection, epochs: int | None) -> int:
    if epochs is None and settings.steps:
        return settings.steps
    epochs = settings.epochs if epochs is None else epochs
    return epochs * _steps_per_pass(samples, settings)


def _steps_per_pass(samples: int, settings: TrainingSection) -> int:
    return math.ceil(samples / settings.batch_size)


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
