"""Tests of models: sums over parts are those of the whole, and users' functions are checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from common.arrays import Array
from common.config import TaskSection
from common.config.task import Kind
from common.data.samples import Samples
from common.errors import FedbedError
from common.learning.evaluation import Measure
from common.learning.losses import LOSSES, own_loss
from common.rng import generator
from common.tasks.sums import added
from common.tasks.task import METRICS, make_task, resolved
from common.wire.messages import LARGEST_REAL

OUTPUTS = 3


def every_metric(kind: Kind, *own: str, loss: str = "auto") -> TaskSection:
    names = tuple(metric.name for metric in METRICS[kind])
    return TaskSection(metrics=(*names, *own), loss=loss)


def measure(kind: Kind, **own: Callable[[Tensor, Tensor], object]) -> Measure:
    section = resolved(every_metric(kind, *(f"x.py:{name}" for name in own)), kind)
    task = make_task(section, OUTPUTS)
    return Measure(task, LOSSES[task.loss], own)


def answers_are_inputs(inputs: Any) -> Tensor:
    assert isinstance(inputs, Tensor)
    return inputs


def some(kind: Kind, n: int = 230) -> Samples:
    """Samples whose inputs are what a model answers."""
    rng = generator(1, "evaluation")
    outputs = rng.standard_normal((n, OUTPUTS)).astype(np.float32)
    noise = rng.standard_normal((n, OUTPUTS)).astype(np.float32)
    targets: Array = (outputs + noise).astype(np.float32)
    if kind == "multi-label":
        targets = (targets > 0).astype(np.uint8)
    elif kind != "regression":
        targets = targets.argmax(axis=1).astype(np.int64)
    return Samples((outputs,), targets)


@pytest.mark.parametrize("kind", ["classification", "multi-label", "regression"])
def test_the_sums_of_parts_give_the_metrics_of_the_whole(kind: Kind) -> None:
    tester, samples = measure(kind), some(kind)
    whole = tester.sums(answers_are_inputs, samples)
    tester.task.check(whole)
    halves = [
        tester.sums(answers_are_inputs, samples.take(np.arange(*ends)))
        for ends in ((0, 31), (31, 230))
    ]
    pooled = tester.task.values(added(halves))
    for name, value in tester.task.values(added([whole])).items():
        assert np.allclose(np.array(value, float), np.array(pooled[name], float)), name


def test_regression_is_as_the_formulas_say() -> None:
    samples = some("regression")
    outputs, targets = samples.inputs[0].astype(float), samples.targets.astype(float)
    tester = measure("regression")
    found = tester.task.values(added([tester.sums(answers_are_inputs, samples)]))
    assert found["mse"] == pytest.approx(((outputs - targets) ** 2).mean())
    assert found["mae"] == pytest.approx(np.abs(outputs - targets).mean())
    spread = ((targets - targets.mean(axis=0)) ** 2).sum(axis=0)
    each = 1 - ((outputs - targets) ** 2).sum(axis=0) / spread
    assert found["r2"] == pytest.approx(each.mean())


def test_macro_f1_is_the_mean_over_classes() -> None:
    samples = some("classification")
    answers, targets = samples.inputs[0].argmax(axis=1), samples.targets
    each = []
    for label in range(OUTPUTS):
        hits = ((answers == label) & (targets == label)).sum()
        precision, recall = hits / (answers == label).sum(), hits / (targets == label).sum()
        each.append(2 * precision * recall / (precision + recall))
    tester = measure("classification")
    found = tester.task.values(added([tester.sums(answers_are_inputs, samples)]))
    assert found["macro_f1"] == pytest.approx(np.mean(each))


def test_a_model_that_diverged_has_the_worst_sums_and_none_that_cannot_be_sent() -> None:
    tester, samples = measure("regression"), some("regression")
    tested = tester.sums(lambda _: torch.full((100, OUTPUTS), torch.nan), samples.take(
        np.arange(100)))  # fmt: skip
    assert tested.sums["squared_error"] == (LARGEST_REAL,)
    assert tested.sums["loss"] == (LARGEST_REAL,)
    tester.task.check(tested)


def test_one_number_each_may_stand_in_a_column() -> None:
    section = resolved(TaskSection(), "regression")
    tester = Measure(make_task(section, 1), LOSSES["mse"])
    samples = Samples((np.zeros((4, 1), np.float32),), np.arange(4, dtype=np.float32))
    assert tester.sums(answers_are_inputs, samples).sums["squared_error"] == (14.0,)
    wrong = Samples((np.zeros((4, 2), np.float32),), np.arange(4, dtype=np.float32))
    with pytest.raises(FedbedError, match=r"answers with \[4, 2\], the targets .* needs 1 out"):
        tester.sums(answers_are_inputs, wrong)


def test_an_own_metric_is_summed_over_batches() -> None:
    tester = measure("regression", over=lambda out, want: ((out > want).sum(), want.numel()))
    samples = some("regression")
    upper, lower = tester.sums(answers_are_inputs, samples).sums["over"]
    assert (upper, lower) == ((samples.inputs[0] > samples.targets).sum(), 690)


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (1.0, "'odd' returned float; expected two numbers"),
        ((1.0, 2.0, 3.0), "'odd' returned 3 values; expected two numbers"),
        ((torch.zeros(2), 2.0), "'odd': "),
        (("a", 1), "could not convert string to float"),
        ((1.0, float("nan")), "expected that the second is finite and not negative"),
        ((1.0, -1.0), "expected that the second is finite and not negative"),
        ((float("nan"), 1.0), "'odd' returned nan for outputs that are all finite"),
    ],
)
def test_an_own_metric_that_returns_something_else_is_reported_in_one_sentence(
    returned: object, words: str
) -> None:
    tester = measure("classification", odd=lambda _out, _want: returned)
    with pytest.raises(FedbedError) as caught:
        tester.sums(answers_are_inputs, some("classification"))
    assert words in str(caught.value)
    assert str(caught.value).startswith("task.metrics: 'odd'")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda out, _: (out**2).mean(dim=1), "a tensor of shape [2]; expected one number"),
        (lambda _out, _: 1.0, "which returned float; expected a tensor"),
        (lambda _out, _: torch.tensor(1.0), "does not depend on the outputs"),
        (lambda out, _: out.sum() * torch.nan, "returned nan for outputs that are all finite"),
    ],
)
def test_an_own_loss_that_returns_something_else_is_reported_in_one_sentence(
    function: Callable[..., object], words: str
) -> None:
    loss = own_loss("x.py:mine", function)
    outputs = torch.ones(2, 3, requires_grad=True)
    with pytest.raises(FedbedError) as caught:
        loss.mean(outputs, torch.zeros(2, dtype=torch.int64))
    assert "task.loss is 'x.py:mine', which returned" in str(caught.value)
    assert words in str(caught.value)


def test_an_own_loss_may_be_infinite_where_the_model_is() -> None:
    loss = own_loss("x.py:mine", lambda out, _: out.mean())
    assert torch.isinf(loss.mean(torch.full((2, 3), torch.inf), torch.zeros(2).long()))
