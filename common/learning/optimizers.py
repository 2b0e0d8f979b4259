"""The steps of local training: SGD and Adam as in torch.optim, and clipping of gradients.

Our own because the first optimizer of torch.optim imports the compiler: 3.5 s and 71 MB.
"""

from __future__ import annotations

import math
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

from common.config import TrainingSection

Tensors: TypeAlias = tuple[Tensor, ...]

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
# on CPUs since torch 2.4; boards may have an older one
_HAS_FUSED_SGD = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 4)


class Optimizer(Protocol):
    """Changes parameters in place, one gradient per parameter at a time.

    `memory` is what earlier steps left behind, empty at first; given to another optimizer of
    the same parameters and settings, that one continues from there.
    """

    memory: Tensors

    def step(self, gradients: Tensors) -> None:
        """One step with these gradients."""


def build_optimizer(parameters: Tensors, settings: TrainingSection, rate: float) -> Optimizer:
    """The optimizer of these settings, without any memory of earlier steps."""
    match settings.optimizer:
        case "sgd":
            return _Sgd(parameters, settings, rate)
        case "adam":
            return _Adam(parameters, settings, rate)


def learning_rate(settings: TrainingSection, round_number: int) -> float:
    """The rate of a round: the full one in the first, and in a test before it."""
    return settings.learning_rate * settings.learning_rate_decay ** max(0, round_number - 1)


@torch.no_grad()
def clipped(gradients: Tensors, longest: float) -> Tensors:
    """The gradients, shortened together to a joint norm of `longest` if theirs is larger."""
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    # multiply even where nothing is shortened: reading the norm first would take longer
    factor = (longest / (norm + 1e-6)).clamp(max=1.0)
    return tuple(torch._foreach_mul(gradients, factor))


class _Sgd:
    """SGD with momentum and weight decay."""

    def __init__(self, parameters: Tensors, settings: TrainingSection, rate: float) -> None:
        self._parameters = parameters
        self._settings = settings
        self._rate = rate
        self._velocity: Tensors | None = None

    @property
    def memory(self) -> Tensors:
        """The velocity."""
        return self._velocity or ()

    @memory.setter
    def memory(self, tensors: Tensors) -> None:
        self._velocity = tuple(
            torch.empty_like(parameter).copy_(tensor)
            for parameter, tensor in zip(self._parameters, tensors, strict=True)
        )

    @torch.no_grad()
    def step(self, gradients: Tensors) -> None:
        """g += wd p; v = rho v + g (at first v = g); p -= lr v."""
        if _HAS_FUSED_SGD:
            self._step_fused(gradients)
        else:
            self._step_by_parts(gradients)

    def _step_fused(self, gradients: Tensors) -> None:
        """All in one pass over the memory: 4 % of a ConvNet's step, 15 % of a small one's."""
        first = self._velocity is None
        if self._velocity is None:
            kept = self._parameters if self._settings.momentum else ()
            self._velocity = tuple(torch.empty_like(parameter) for parameter in kept)
        torch._fused_sgd_(
            list(self._parameters),
            # it works on raw memory, so a gradient must have the strides of its parameter
            [
                gradient
                if gradient.stride() == parameter.stride()
                else torch.empty_like(parameter).copy_(gradient)
                for parameter, gradient in zip(self._parameters, gradients, strict=True)
            ],
            list(self._velocity),
            weight_decay=self._settings.weight_decay,
            momentum=self._settings.momentum,
            lr=self._rate,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=first,
        )

    def _step_by_parts(self, gradients: Tensors) -> None:
        gradients = _decayed(self._parameters, gradients, self._settings.weight_decay)
        if self._settings.momentum:
            gradients = self._accelerated(gradients)
        torch._foreach_add_(self._parameters, gradients, alpha=-self._rate)

    def _accelerated(self, gradients: Tensors) -> Tensors:
        if self._velocity is None:
            # clones, because autograd may hand out one tensor for two parameters
            self._velocity = tuple(gradient.clone() for gradient in gradients)
        else:
            torch._foreach_mul_(self._velocity, self._settings.momentum)
            torch._foreach_add_(self._velocity, gradients)
        return self._velocity


class _Adam:
    """Adam (Kingma and Ba, 2015) with weight decay as an L2 penalty."""

    def __init__(self, parameters: Tensors, settings: TrainingSection, rate: float) -> None:
        self._parameters = parameters
        self._weight_decay = settings.weight_decay
        self._rate = rate
        self._mean = tuple(torch.zeros_like(parameter) for parameter in parameters)
        self._square = tuple(torch.zeros_like(parameter) for parameter in parameters)
        self._steps = 0

    @property
    def memory(self) -> Tensors:
        """Means, squares, and the number of steps."""
        if not self._steps:
            return ()
        return (*self._mean, *self._square, torch.tensor(float(self._steps)))

    @memory.setter
    def memory(self, tensors: Tensors) -> None:
        *both, steps = tensors
        for mine, kept in zip((*self._mean, *self._square), both, strict=True):
            mine.copy_(kept)
        self._steps = int(steps)

    @torch.no_grad()
    def step(self, gradients: Tensors) -> None:
        """m = b1 m + (1-b1) g; v = b2 v + (1-b2) g²; p -= lr m' / (sqrt(v') + eps).

        m' and v' are m and v without their bias towards zero: over 1 - b1^t and 1 - b2^t.
        """
        self._steps += 1
        gradients = _decayed(self._parameters, gradients, self._weight_decay)
        torch._foreach_lerp_(self._mean, gradients, 1 - BETA_1)
        torch._foreach_mul_(self._square, BETA_2)
        torch._foreach_addcmul_(self._square, gradients, gradients, 1 - BETA_2)
        scale = torch._foreach_sqrt(self._square)
        torch._foreach_div_(scale, math.sqrt(1 - BETA_2**self._steps))
        torch._foreach_add_(scale, EPSILON)
        rate = self._rate / (1 - BETA_1**self._steps)
        torch._foreach_addcdiv_(self._parameters, self._mean, scale, -rate)


def _decayed(parameters: Tensors, gradients: Tensors, weight_decay: float) -> Tensors:
    if not weight_decay:
        return gradients
    return tuple(torch._foreach_add(gradients, parameters, alpha=weight_decay))
