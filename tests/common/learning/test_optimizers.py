from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from common.config import TrainingSection
from common.learning import optimizers
from common.learning.optimizers import build_optimizer, clipped, learning_rate


def some_gradients(step: int) -> tuple[Tensor, ...]:
    chance = torch.Generator().manual_seed(step)
    return tuple(torch.randn(shape, generator=chance) for shape in ((3, 4), (5,)))


@pytest.mark.slow  # torch.optim takes seconds to import
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_our_adam_is_that_of_torch_optim(weight_decay: float) -> None:
    ours = some_gradients(0)
    theirs = [nn.Parameter(value.clone()) for value in ours]
    settings = TrainingSection(optimizer="adam", weight_decay=weight_decay)
    adam = build_optimizer(ours, settings, 0.01)
    reference = torch.optim.Adam(theirs, lr=0.01, weight_decay=weight_decay)
    for step in range(1, 31):
        adam.step(some_gradients(step))
        for parameter, gradient in zip(theirs, some_gradients(step), strict=True):
            parameter.grad = gradient
        reference.step()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other.detach(), rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("fused", [False, True])
def test_our_sgd_is_that_of_torch_optim_however_the_memory_is_laid_out(
    monkeypatch: pytest.MonkeyPatch, momentum: float, *, fused: bool
) -> None:
    if fused and not optimizers._HAS_FUSED_SGD:
        pytest.skip("this torch has no fused SGD on CPUs")
    monkeypatch.setattr(optimizers, "_HAS_FUSED_SGD", fused)
    chance = torch.Generator().manual_seed(1)
    first, *gradients = (torch.randn((3, 4, 2, 2), generator=chance) for _ in range(9))
    ours = first.clone(memory_format=torch.channels_last)
    theirs = nn.Parameter(first.clone())
    settings = TrainingSection(momentum=momentum, weight_decay=0.1)
    sgd = build_optimizer((ours,), settings, 0.01)
    reference = torch.optim.SGD([theirs], lr=0.01, momentum=momentum, weight_decay=0.1)
    for gradient in gradients:
        sgd.step((gradient,))
        theirs.grad = gradient
        reference.step()
    torch.testing.assert_close(ours, theirs.detach(), rtol=0, atol=1e-6)


def test_two_steps_of_adam_are_those_worked_out_by_hand() -> None:
    # g = 1: m' = v' = 1, a step of 0.1. Then g = -1: m = 0.09 - 0.1 = -0.01, over 0.19;
    # v = 0.001999, over 0.001999: a step of 0.1 * 0.0526316 back.
    parameter = torch.tensor([1.0])
    adam = build_optimizer((parameter,), TrainingSection(optimizer="adam"), 0.1)
    adam.step((torch.tensor([1.0]),))
    assert parameter.item() == pytest.approx(0.9, abs=1e-6)
    adam.step((torch.tensor([-1.0]),))
    assert parameter.item() == pytest.approx(0.9052632, abs=1e-6)


def test_an_optimizer_leaves_the_gradients_as_they_are() -> None:
    for settings in (TrainingSection(weight_decay=0.1), TrainingSection(optimizer="adam")):
        gradients = some_gradients(1)
        optimizer = build_optimizer(some_gradients(0), settings, 0.01)
        optimizer.step(gradients)
        optimizer.step(gradients)
        for gradient, expected in zip(gradients, some_gradients(1), strict=True):
            assert torch.equal(gradient, expected)


def test_gradients_are_shortened_together_to_the_largest_norm() -> None:
    one, two = clipped((torch.tensor([3.0, 0.0]), torch.tensor([4.0])), 1.0)
    assert one.tolist() == pytest.approx([0.6, 0.0], abs=1e-6)
    assert two.tolist() == pytest.approx([0.8], abs=1e-6)


def test_short_gradients_are_left_as_they_are() -> None:
    gradients = some_gradients(1)
    for after, before in zip(clipped(gradients, 1000.0), gradients, strict=True):
        assert torch.equal(after, before)


def test_the_rate_decays_from_the_second_round_on() -> None:
    settings = TrainingSection(learning_rate=0.1, learning_rate_decay=0.5)
    assert [learning_rate(settings, number) for number in (0, 1, 2, 4)] == [
        0.1,
        0.1,
        0.05,
        0.0125,
    ]
    assert learning_rate(TrainingSection(), 100) == 0.01
