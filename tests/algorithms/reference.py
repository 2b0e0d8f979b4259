"""Local training written down once more, in double precision, to compare the real one with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from common.arrays import Arrays
from common.config import Option, TrainingSection
from common.data.samples import Samples
from common.rng import generator
from tests.algorithms.federation import HEAVY, THREE, Federation

Values: TypeAlias = dict[str, Tensor]
Loss: TypeAlias = Callable[[Values, Tensor, Tensor], Tensor]
Terms: TypeAlias = Callable[[Values], Mapping[str, Tensor]]

SEED = 1
SIZES = [len(own) for own in THREE]


def values(arrays: Arrays) -> Values:
    """Arrays in double precision."""
    return {name: torch.tensor(array, dtype=torch.float64) for name, array in arrays.items()}


def inputs(own: Samples) -> Tensor:
    """Pixels between -1 and 1."""
    return torch.tensor((own.inputs[0].reshape(-1, 4) / 255 - 0.5) / 0.5, dtype=torch.float64)


def base(p: Values, x: Tensor, part: str = "base") -> Tensor:
    return x @ p[f"{part}.1.weight"].T + p[f"{part}.1.bias"]


def head(p: Values, z: Tensor, part: str = "head") -> Tensor:
    return z @ p[f"{part}.0.weight"].T + p[f"{part}.0.bias"]


def entropy(p: Values, x: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy of the model."""
    return functional.cross_entropy(head(p, base(p, x)), y)


def batches(
    purpose: str,
    round_number: int,
    client: int,
    count: int,
    settings: TrainingSection,
    epochs: int,
) -> list[Tensor]:
    """The samples of every step: a new shuffle for every epoch."""
    rng = generator(SEED, purpose, round_number, client)
    found: list[Tensor] = []
    for _ in range(epochs):
        found += torch.from_numpy(rng.permutation(count)).split(settings.batch_size)
    return found


def gradients(loss: Tensor, p: Values, names: Sequence[str]) -> Values:
    return dict(zip(names, torch.autograd.grad(loss, [p[name] for name in names]), strict=True))


def with_grad(p: Values, names: Iterable[str]) -> Values:
    """The same values, some of them to be differentiated by."""
    wanted = set(names)
    return {
        name: value.detach().clone().requires_grad_(name in wanted) for name, value in p.items()
    }


def sgd(
    start: Values,
    own: Samples,
    steps: Sequence[Tensor],
    settings: TrainingSection,
    *,
    only: Sequence[str] = ("base", "head"),
    loss: Loss = entropy,
    terms: Terms | None = None,
    momentum: float | None = None,
    velocity: Values | None = None,
) -> Values:
    """v = rho v + g; p -= eta v, for the parameters of some parts.

    `velocity` is where v is from, and where it goes.
    """
    rho = settings.momentum if momentum is None else momentum
    names = [name for name in start if name.split(".")[0] in only]
    p, x, y = dict(start), inputs(own), torch.from_numpy(own.targets)
    velocity = {} if velocity is None else velocity
    for batch in steps:
        p = with_grad(p, names)
        g = gradients(loss(p, x[batch], y[batch]), p, names)
        more = terms({name: value.detach() for name, value in p.items()}) if terms else {}
        for name in names:
            step = g[name] + more.get(name, 0)
            velocity[name] = rho * velocity[name] + step if name in velocity else step
            p[name] = p[name].detach() - settings.learning_rate * velocity[name]
    return {name: value.detach() for name, value in p.items()}


def mean(models: Sequence[Values], weights: Sequence[float]) -> Values:
    """The mean by weights."""
    return {
        name: sum(
            (w * model[name] for w, model in zip(weights, models, strict=True)),
            torch.zeros_like(first),
        )
        / sum(weights)
        for name, first in models[0].items()
    }


def agree(arrays: Arrays, expected: Values, tolerance: float = 1e-6) -> None:
    """Fail unless these are the same."""
    assert set(arrays) == set(expected)
    for name, array in arrays.items():
        worst = float(np.abs(array - expected[name].numpy()).max())
        assert worst <= tolerance, f"{name} differs by {worst}"


def part(p: Values, name: str) -> Values:
    return {key: value for key, value in p.items() if key.split(".")[0] == name}


def named(p: Values, old: str, new: str) -> Values:
    """One part under another name."""
    return {new + key.removeprefix(old): value for key, value in part(p, old).items()}


def federation(
    folder: Path, name: str, training: TrainingSection = HEAVY, **options: Option
) -> Federation:
    return Federation(folder, name, options, training=training)


def shuffled(round_number: int, client: int, settings: TrainingSection) -> list[Tensor]:
    return batches("shuffle", round_number, client, SIZES[client], settings, settings.epochs)


def trained_all(start: Values, round_number: int, settings: TrainingSection) -> list[Values]:
    """Everybody's model after plain training from one start."""
    return [
        sgd(start, own, shuffled(round_number, k, settings), settings)
        for k, own in enumerate(THREE)
    ]


def pull(w: Values, strength: float, less: Values | None = None) -> Terms:
    """strength (p - w) - less, to be added to a gradient."""

    def terms(p: Values) -> Values:
        pull = {name: strength * (p[name] - w[name]) for name in w}
        return pull if less is None else {name: pull[name] - less[name] for name in w}

    return terms


def assert_same(predictor: object, expected: Tensor, own: Samples) -> None:
    """A personal model gives these logits."""
    assert callable(predictor)
    images = inputs(own).float().reshape(-1, 1, 2, 2)
    assert (predictor(images) - expected.detach()).abs().max() < 1e-5
