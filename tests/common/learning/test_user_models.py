from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from common.arrays import digest
from common.config import Experiment, ExperimentSection, ModelSection
from common.errors import ConfigError
from common.experiment.resolve import checked, first_model, shapes_of, user_model

Shape = tuple[int, int, int]
HERE = "tests.common.learning.test_user_models"


class Noisy(nn.Module):
    """A model with dropout, in its own forward pass."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        self.base = nn.Linear(math.prod(shape), 8)
        self.head = nn.Linear(8, classes)

    def forward(self, images: Tensor) -> Tensor:
        features = nn.functional.dropout(self.base(images.flatten(1)), training=self.training)
        logits: Tensor = self.head(features)
        return logits


def noisy(shape: Shape, classes: int) -> nn.Module:
    return Noisy(shape, classes)


def not_a_model(_shape: Shape, _classes: int) -> int:
    return 3


def without_head(shape: Shape, classes: int) -> nn.Module:
    return nn.ModuleDict({"base": nn.Linear(math.prod(shape), classes)})


def with_more(_shape: Shape, _classes: int) -> nn.Module:
    return nn.ModuleDict({name: nn.Linear(1, 1) for name in ("base", "head", "neck")})


def with_doubles(_shape: Shape, _classes: int) -> nn.Module:
    return nn.ModuleDict({"base": nn.Linear(1, 1).double(), "head": nn.Linear(1, 1)})


def experiment(function: str, seed: int = 1) -> Experiment:
    return Experiment(
        experiment=ExperimentSection(seed=seed), model=ModelSection(name=f"{HERE}:{function}")
    )


def test_the_server_learns_names_and_shapes_from_the_function() -> None:
    assert shapes_of(experiment("noisy")) == {
        "base.weight": (8, 784),
        "base.bias": (8,),
        "head.weight": (10, 8),
        "head.bias": (10,),
    }


def test_the_first_values_depend_on_the_seed_only() -> None:
    before = torch.get_rng_state()
    one = digest(first_model(experiment("noisy")))
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(1)
    assert digest(first_model(experiment("noisy"))) == one
    assert digest(first_model(experiment("noisy", seed=2))) != one


def test_a_users_model_starts_in_evaluation_mode() -> None:
    assert not user_model(experiment("noisy")).training


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        ("nowhere", "has no attribute 'nowhere'"),
        ("HERE", "which is not a function"),
        ("not_a_model", "which makes int; expected nn.Module"),
        ("without_head", "which has arrays in base; expected base and head"),
        ("with_more", "which has arrays in base, head, neck; expected base and head"),
        ("with_doubles", "in which base.weight is torch.float64; expected torch.float32"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_by_name(function: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=rf"model.name is '{HERE}:{function}'.*{problem}"):
        checked(experiment(function))


def test_a_module_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"model.name is 'nowhere:at_all': No module named"):
        checked(Experiment(model=ModelSection(name="nowhere:at_all")))
