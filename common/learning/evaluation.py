"""How good a model is on some samples: the sums that a task's metrics are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import Tensor

from common.algorithms.client import Predictor
from common.config.task import OF_ONE_CLASS
from common.data.samples import Samples
from common.errors import FedbedError
from common.learning.inputs import batch_of
from common.learning.losses import CROSS_ENTROPY, TaskLoss, answers_like, target_tensor
from common.learning.net import TorchNet
from common.tasks.metrics import (
    CLASS_ANSWERS,
    CLASS_HITS,
    CLASS_SAMPLES,
    LABEL_ANSWERS,
    LABEL_HITS,
    LABEL_SAMPLES,
    LOSS,
    OUTPUT_ERRORS,
    TARGET_SQUARES,
    TARGET_SUM,
)
from common.tasks.task import Task
from common.wire.messages import LARGEST_REAL, Sums

BATCH = 100

OwnMetric: TypeAlias = Callable[[Tensor, Tensor], object]
_Sum: TypeAlias = Callable[[Tensor, Tensor], Tensor]  # answers and targets of a batch -> sums


@dataclass(frozen=True, slots=True)
class Measure:
    """A task, its loss, and the user's own metrics by name."""

    task: Task
    loss: TaskLoss
    own: Mapping[str, OwnMetric] = field(default_factory=dict)

    def sums(
        self, predict: Predictor, samples: Samples, *, union: bool = False, batch: int = BATCH
    ) -> Sums:
        """What a test of a model on these samples adds up."""
        kinds = self.task.union_kinds if union else self.task.kinds
        total = {name: [0.0] * kind.numbers(self.task.outputs) for name, kind in kinds.items()}
        targets = target_tensor(samples)
        with torch.inference_mode():
            for start in range(0, len(samples), batch):
                part = slice(start, start + batch)
                outputs = predict(batch_of(samples, part))
                for name, numbers in self._batch(outputs, targets[part], total).items():
                    before = total[name]
                    total[name] = [a + b for a, b in zip(before, numbers, strict=True)]
        return Sums(
            samples=len(samples),
            sums={name: tuple(map(self._bounded(name), total[name])) for name in total},
        )

    def _batch(
        self, outputs: Tensor, targets: Tensor, names: Mapping[str, object]
    ) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        ours = {name for name in names if name != LOSS and name not in self.own}
        if LOSS in names:
            found[LOSS] = [self.loss.total(outputs, targets).item()]
        if self.task.kind in OF_ONE_CLASS:
            found |= _class_sums(outputs, targets, ours)
        else:
            outputs = answers_like(outputs, targets)
            summed = _label_sums if self.task.kind == "multi-label" else _number_sums
            wide = targets.reshape(len(targets), -1)
            found |= summed(outputs.reshape(wide.shape), wide, ours)
        for name in self.own.keys() & names.keys():
            found[name] = _own_sums(name, self.own[name](outputs, targets))
            if not math.isfinite(found[name][0]) and torch.isfinite(outputs).all():
                raise FedbedError(
                    f"task.metrics: {name!r} returned {found[name][0]} for outputs that are "
                    "all finite"
                )
        return found

    def _bounded(self, name: str) -> Callable[[float], float]:
        """Numbers that can be sent; what is not finite counts as the worst there is."""
        metric = next((one for one in self.task.metrics if one.name == name), None)
        worst = -LARGEST_REAL if metric is not None and not metric.lower else LARGEST_REAL

        def bounded(value: float) -> float:
            if not math.isfinite(value):
                return worst
            return float(max(-LARGEST_REAL, min(LARGEST_REAL, value)))

        return bounded


def mean_loss(
    net: TorchNet, samples: Samples, loss: TaskLoss = CROSS_ENTROPY, batch: int = BATCH
) -> float:
    """Mean loss of the model over some samples."""
    targets, total = target_tensor(samples), 0.0
    with torch.inference_mode():
        for start in range(0, len(samples), batch):
            part = slice(start, start + batch)
            total += loss.total(net(batch_of(samples, part)), targets[part]).item()
    return total / len(samples)


def _class_sums(outputs: Tensor, targets: Tensor, names: set[str]) -> dict[str, list[float]]:
    """Sums for samples of one class each: the answer is the largest output."""
    answers, classes = outputs.argmax(dim=1), outputs.shape[1]
    hit = answers == targets

    def counted(which: Tensor, size: int = classes) -> list[float]:
        return [float(count) for count in torch.bincount(which, minlength=size).tolist()]

    made: dict[str, Callable[[], list[float]]] = {
        "correct": lambda: [float(hit.sum().item())],
        CLASS_HITS: lambda: counted(targets[hit]),
        CLASS_SAMPLES: lambda: counted(targets),
        CLASS_ANSWERS: lambda: counted(answers),
        "confusion": lambda: counted(targets * classes + answers, classes**2),
    }
    return {name: made[name]() for name in names}


def _label_sums(outputs: Tensor, targets: Tensor, names: set[str]) -> dict[str, list[float]]:
    """Sums for samples with any number of labels: the answer is every positive output."""
    answers, wanted = outputs > 0, targets > 0.5
    found, right = answers & wanted, answers == wanted
    made: dict[str, Callable[[], Tensor]] = {
        "found": lambda: found.sum(),
        "wanted": lambda: wanted.sum(),
        "answered": lambda: answers.sum(),
        "exact": lambda: right.all(dim=1).sum(),
        "right": lambda: right.double().mean(dim=1).sum(),
        LABEL_HITS: lambda: found.sum(dim=0),
        LABEL_SAMPLES: lambda: wanted.sum(dim=0),
        LABEL_ANSWERS: lambda: answers.sum(dim=0),
    }
    return {name: made[name]().reshape(-1).double().tolist() for name in names}


def _number_sums(outputs: Tensor, targets: Tensor, names: set[str]) -> dict[str, list[float]]:
    """Sums for numbers, in double precision; of several outputs errors are means."""
    wanted = targets.double()
    errors = outputs.double() - wanted
    made: dict[str, Callable[[], Tensor]] = {
        "squared_error": lambda: errors.square().mean(dim=1).sum(),
        "absolute_error": lambda: errors.abs().mean(dim=1).sum(),
        OUTPUT_ERRORS: lambda: errors.square().sum(dim=0),
        TARGET_SUM: lambda: wanted.sum(dim=0),
        TARGET_SQUARES: lambda: wanted.square().sum(dim=0),
    }
    return {name: made[name]().reshape(-1).tolist() for name in names}


def _own_sums(name: str, returned: object) -> list[float]:
    """The two sums that a user's metric returns for a batch."""
    expected = "expected two numbers: what is added up, and over how many"
    if not isinstance(returned, tuple | list):
        kind = type(returned).__name__
        raise FedbedError(f"task.metrics: {name!r} returned {kind}; {expected}")
    if len(returned) != 2:
        raise FedbedError(f"task.metrics: {name!r} returned {len(returned)} values; {expected}")
    try:
        upper, lower = (float(one) for one in returned)
    except (TypeError, ValueError, RuntimeError) as error:
        raise FedbedError(f"task.metrics: {name!r}: {error}; {expected}") from error
    if not (math.isfinite(lower) and lower >= 0):
        raise FedbedError(
            f"task.metrics: {name!r} returned {upper:g} and {lower:g}; expected that the "
            "second is finite and not negative"
        )
    return [upper, lower]
