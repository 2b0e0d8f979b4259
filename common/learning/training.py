"""The one local training loop.

What an algorithm varies comes in as a `Plan`; all randomness comes from the generator given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from common.algorithms.base import MODEL, After, Extra, Loss
from common.arrays import part_of
from common.config import TrainingSection
from common.data.samples import Samples
from common.learning.inputs import Inputs, features_of, inputs_of
from common.learning.losses import CROSS_ENTROPY, LossFunction, target_tensor
from common.learning.net import TorchNet
from common.learning.optimizers import (
    Optimizer,
    Tensors,
    build_optimizer,
    clipped,
    learning_rate,
)
from common.learning.torch_seed import torch_chance_from


@dataclass(frozen=True, slots=True)
class Plan:
    """What an algorithm varies in a training (see `common.algorithms.base.Client.train`)."""

    only: Sequence[str] = MODEL
    epochs: int | None = None
    steps: int | None = None
    special: Mapping[str, TrainingSection] = field(default_factory=dict)
    loss: Loss | None = None  # instead of the task's loss of the model
    extra: Extra | None = None
    after: After | None = None


PLAIN = Plan()


@dataclass(frozen=True, slots=True)
class TrainingStats:
    """The result of a training: mean loss over the last pass (not finite if it diverged)."""

    loss: float
    steps: int
    planned: int


def train(  # noqa: PLR0913 - each is a thing of its own
    net: TorchNet,
    samples: Samples,
    settings: TrainingSection,
    rng: np.random.Generator,
    plan: Plan = PLAIN,
    *,
    loss: LossFunction = CROSS_ENTROPY.mean,
    round_number: int = 1,
    memory: dict[str, Tensor] | None = None,
    progress: Callable[[int, int, float], None] | None = None,
    stop: Callable[[int], bool] = lambda _steps: False,
) -> TrainingStats:
    """Train the parts of `net` that the plan names, in place; in evaluation mode afterwards.

    `loss` is the task's; `round_number` is for the decay of the rate; `progress(pass, passes,
    loss)` is called after every pass over the samples. The optimizer starts from nothing in
    every call, or from `memory`, in which it then leaves what the next call may start from.
    After every step `stop` is asked, with their number, whether that was enough.
    """
    planned = _planned_steps(len(samples), settings, plan)
    passes = math.ceil(planned / _steps_per_pass(len(samples), settings))
    mean, steps = float("nan"), 0
    with torch_chance_from(rng), _trainable(net, plan.only) as parameters:
        stepper = _Stepper(net, parameters, samples, settings, plan, loss, round_number)
        stepper.recall(memory or {})
        for at_pass in range(1, passes + 1):
            batches = _batches(rng.permutation(len(samples)), settings.batch_size)
            batches = batches[: planned - steps]
            if net.has_norm and len(batches[-1]) == 1:  # BatchNorm needs two samples
                batches = batches[:-1]
            mean = stepper.do(batches, stop)
            steps += len(batches)
            if progress is not None:
                progress(at_pass, passes, mean)
            if stop(stepper.steps):
                break
        if memory is not None:
            memory |= stepper.memory()
    return TrainingStats(mean, stepper.steps, planned)


class _Stepper:
    """Does the steps of one training."""

    def __init__(
        self,
        net: TorchNet,
        parameters: Mapping[str, Tensor],
        samples: Samples,
        settings: TrainingSection,
        plan: Plan,
        loss: LossFunction,
        round_number: int,
    ) -> None:
        self.steps = 0
        self._net = net
        self._parameters = parameters
        self._tensors = tuple(parameters.values())
        self._targets = target_tensor(samples)
        self._settings = settings
        self._plan = plan
        self._loss = _of_model(loss) if plan.loss is None else plan.loss
        self._inputs: Inputs
        if plan.loss is None and plan.only == ("head",) and net.has_fixed_features:
            self._inputs = features_of(net, samples)  # once instead of in every pass
            self._loss = _of_features(loss)
        else:
            self._inputs = inputs_of(samples)
        self._optimizers = _optimizers(parameters, settings, plan, round_number)

    def recall(self, memory: Mapping[str, Tensor]) -> None:
        """Continue from what an earlier training left behind."""
        for at, (optimizer, _) in enumerate(self._optimizers):
            names = sorted((name for name in memory if name.startswith(f"{at}.")), key=_index)
            if names:
                optimizer.memory = tuple(memory[name] for name in names)

    def memory(self) -> dict[str, Tensor]:
        """What the optimizers leave behind."""
        return {
            f"{at}.{index}": tensor
            for at, (optimizer, _) in enumerate(self._optimizers)
            for index, tensor in enumerate(optimizer.memory)
        }

    def do(
        self, batches: Sequence[npt.NDArray[np.int64]], stop: Callable[[int], bool]
    ) -> float:
        """One step for each batch, until it is enough; the mean loss of their samples."""
        losses: list[Tensor | None] = []
        for batch in batches:
            losses.append(self._step(batch))
            if stop(self.steps):
                break
        # read after the last step only: reading a number waits until it is computed
        counted = [
            (loss.item(), len(batch))
            for loss, batch in zip(losses, batches, strict=False)
            if loss is not None
        ]
        total = sum(size for _, size in counted)
        return sum(loss * size for loss, size in counted) / total if total else math.nan

    def _step(self, batch: npt.NDArray[np.int64]) -> Tensor | None:
        index = torch.from_numpy(batch).to(self._targets.device)
        targets = self._targets.index_select(0, index)
        loss = self._loss(self._net, self._inputs(index), targets)
        if loss is None:
            return None
        gradients = torch.autograd.grad(loss, self._tensors)
        if self._plan.extra is not None:
            gradients = _with_terms(self._parameters, gradients, self._plan.extra)
        if self._settings.grad_clip:
            gradients = clipped(gradients, self._settings.grad_clip)
        for optimizer, chosen in self._optimizers:
            optimizer.step(tuple(gradients[at] for at in chosen))
        self.steps += 1
        if self._plan.after is not None:
            names = zip(self._parameters, gradients, strict=True)
            with torch.no_grad():
                self._plan.after(self._parameters, dict(names))
        return loss.detach()


def _index(name: str) -> int:
    return int(name.partition(".")[2])


def _of_model(loss: LossFunction) -> Loss:
    return lambda net, inputs, targets: loss(net(inputs), targets)


def _of_features(loss: LossFunction) -> Loss:
    return lambda net, features, targets: loss(net.part("head")(features), targets)


def _optimizers(
    parameters: Mapping[str, Tensor], settings: TrainingSection, plan: Plan, round_number: int
) -> list[tuple[Optimizer, list[int]]]:
    """An optimizer for all parameters that share their settings, and which ones those are."""
    groups: dict[TrainingSection, list[int]] = {}
    for at, name in enumerate(parameters):
        groups.setdefault(plan.special.get(part_of(name), settings), []).append(at)
    tensors = tuple(parameters.values())
    return [
        (
            build_optimizer(
                tuple(tensors[at] for at in chosen), own, learning_rate(own, round_number)
            ),
            chosen,
        )
        for own, chosen in groups.items()
    ]


@contextmanager
def _trainable(net: TorchNet, only: Sequence[str]) -> Iterator[dict[str, Tensor]]:
    """The parameters of these parts by name; within, no other parameter needs a gradient.

    Within, these parts are in training mode; afterwards everything is in evaluation mode.
    """
    before = {name: value.requires_grad for name, value in net.named_parameters()}
    parameters = dict(net.named_parameters())
    for name, parameter in parameters.items():
        parameter.requires_grad_(part_of(name) in only)
    net.train_only(only)
    try:
        yield {name: value for name, value in parameters.items() if part_of(name) in only}
    finally:
        net.eval()
        for name, parameter in parameters.items():
            parameter.requires_grad_(before[name])


def _planned_steps(samples: int, settings: TrainingSection, plan: Plan) -> int:
    if plan.steps is not None:
        return plan.steps
    if plan.epochs is None and settings.steps:
        return settings.steps
    epochs = settings.epochs if plan.epochs is None else plan.epochs
    return epochs * _steps_per_pass(samples, settings)


def _steps_per_pass(samples: int, settings: TrainingSection) -> int:
    return math.ceil(samples / settings.batch_size)


def _batches(order: npt.NDArray[np.int64], size: int) -> list[npt.NDArray[np.int64]]:
    """Cut into pieces of `size`; the last may be smaller, so that no sample is left out."""
    return [order[start : start + size] for start in range(0, len(order), size)]


def _with_terms(parameters: Mapping[str, Tensor], gradients: Tensors, extra: Extra) -> Tensors:
    with torch.no_grad():
        terms = extra(parameters)
        return tuple(
            gradient + terms[name] if name in terms else gradient
            for name, gradient in zip(parameters, gradients, strict=True)
        )
