"""The losses of tasks: what training makes small, and what tests add up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from common.data.samples import Samples
from common.errors import FedbedError
from common.learning.device import device

LossFunction: TypeAlias = Callable[[Tensor, Tensor], Tensor]
_HUBER_DELTA = 1.0


@dataclass(frozen=True, slots=True)
class TaskLoss:
    """A loss of outputs and targets: its mean over a batch, and its sum over the samples."""

    mean: LossFunction
    total: LossFunction


def target_tensor(samples: Samples) -> Tensor:
    """What networks shall answer: classes int64, numbers and labels float32."""
    targets = torch.tensor(samples.targets, device=device())
    whole = targets.dtype == torch.int64
    return targets if whole else targets.to(torch.float32)


def answers_like(outputs: Tensor, targets: Tensor) -> Tensor:
    """Outputs in the shape of the targets, for one number each stands in a column."""
    if outputs.shape == targets.shape:
        return outputs
    if outputs.numel() != targets.numel():
        raise FedbedError(
            f"the model answers with {list(outputs.shape)}, the targets of the batch are "
            f"{list(targets.shape)}; the last layer needs {targets[0].numel()} outputs"
        )
    return outputs.reshape(targets.shape)


def _classes(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs, targets)


def _classes_total(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs, targets, reduction="sum")


def _labels(outputs: Tensor, targets: Tensor) -> Tensor:
    answers = answers_like(outputs, targets)
    return functional.binary_cross_entropy_with_logits(answers, targets)


def _squares(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.mse_loss(answers_like(outputs, targets), targets)


def _sizes(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.l1_loss(answers_like(outputs, targets), targets)


def _huber(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.huber_loss(answers_like(outputs, targets), targets, delta=_HUBER_DELTA)


def _of_mean(mean: LossFunction) -> TaskLoss:
    return TaskLoss(mean, lambda outputs, targets: mean(outputs, targets) * len(targets))


CROSS_ENTROPY = TaskLoss(_classes, _classes_total)
LOSSES: Mapping[str, TaskLoss] = {
    "cross-entropy": CROSS_ENTROPY,
    "binary-cross-entropy": _of_mean(_labels),
    "mse": _of_mean(_squares),
    "mae": _of_mean(_sizes),
    "huber": _of_mean(_huber),
}


def own_loss(name: str, function: Callable[..., object]) -> TaskLoss:
    """A user's loss of outputs and targets, checked to be one number."""

    def mean(outputs: Tensor, targets: Tensor) -> Tensor:
        if targets.is_floating_point():
            outputs = answers_like(outputs, targets)
        value = function(outputs, targets)
        if not isinstance(value, Tensor):
            raise FedbedError(
                f"task.loss is {name!r}, which returned {type(value).__name__}; expected a "
                "tensor with one number"
            )
        if value.ndim != 0:
            raise FedbedError(
                f"task.loss is {name!r}, which returned a tensor of shape "
                f"{list(value.shape)}; expected one number, such as the mean over the batch"
            )
        if torch.is_grad_enabled() and outputs.requires_grad and not value.requires_grad:
            raise FedbedError(
                f"task.loss is {name!r}, which returned a number that does not depend on the "
                "outputs, so nothing can be learned from it"
            )
        if not torch.isfinite(value) and torch.isfinite(outputs).all():
            raise FedbedError(
                f"task.loss is {name!r}, which returned {value.item()} for outputs that are "
                "all finite"
            )
        return value

    return _of_mean(mean)
