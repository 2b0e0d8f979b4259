from __future__ import annotations

import math
import sys

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from common.arrays import digest
from common.config import (
    AlgorithmSection,
    Experiment,
    ExperimentSection,
    ModelSection,
    TrainingSection,
)
from common.data.samples import Samples
from common.errors import ConfigError
from common.experiment.resolve import buffers_of, checked, first_model, shapes_of, user_model
from common.learning.net import TorchNet
from common.learning.networks import extract
from common.learning.training import train
from common.learning.user_models import make_user_model

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


def without_parameters(_shape: Shape, _classes: int) -> nn.Module:
    return nn.Flatten()


def of_five(shape: Shape, _classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), 5))


def for_colours(_shape: Shape, classes: int) -> nn.Module:
    return nn.Conv2d(3, classes, 3)


class TwoAnswers(nn.Linear):
    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return images, images


def two_answers(_shape: Shape, _classes: int) -> nn.Module:
    return TwoAnswers(1, 1)


def raising(_shape: Shape, _classes: int) -> nn.Module:
    return nn.Linear(1, 1 // 0)


class Plain(nn.Module):
    """A network as people write them: without parts that are called base and head."""

    def __init__(self, shape: Shape, classes: int, *, more: bool = False) -> None:
        super().__init__()
        self.conv = nn.Conv2d(shape[0], 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, classes)
        self.more = more

    def forward(self, images: Tensor) -> Tensor:
        features = self.norm(self.conv(images)).mean(dim=(2, 3))
        logits: Tensor = self.fc(features)
        return 2 * logits + 1 if self.more else logits


def plain(shape: Shape, classes: int) -> nn.Module:
    return Plain(shape, classes)


def plain_and_more(shape: Shape, classes: int) -> nn.Module:
    return Plain(shape, classes, more=True)


def with_doubles(_shape: Shape, _classes: int) -> nn.Module:
    return nn.ModuleDict({"base": nn.Linear(1, 1).double(), "head": nn.Linear(1, 1)})


def experiment(
    function: str, seed: int = 1, head: str = "", algorithm: str = "fedavg"
) -> Experiment:
    name = function if ":" in function else f"{HERE}:{function}"
    return Experiment(
        experiment=ExperimentSection(seed=seed),
        model=ModelSection(name=name, head=head),
        algorithm=AlgorithmSection(name=algorithm),
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
        ("nowhere", "has no 'nowhere'"),
        ("HERE", "which is not a function"),
        ("not_a_model", "which makes int; expected nn.Module"),
        ("without_parameters", "which has no parameters; there is nothing to train"),
        ("of_five", r"which answers 2 samples by \(2, 5\) .*; expected \(2, 10\)"),
        ("for_colours", r"with inputs of shape \(1, 28, 28\): RuntimeError: .*channels"),
        ("two_answers", "which answers tuple .*; expected a tensor"),
        ("raising", r"ZeroDivisionError: .* by zero \(test_user_models.py:\d+\)"),
        ("with_doubles", "in which base.weight is torch.float64; expected torch.float32"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_by_name(function: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=rf"model.name is '{HERE}:{function}'.*{problem}"):
        checked(experiment(function))


def test_a_module_that_is_not_there_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"model.name is 'nowhere:at_all', but no module nowhere is"
    ):
        checked(Experiment(model=ModelSection(name="nowhere:at_all")))


def test_any_network_can_be_averaged_and_its_head_has_a_name_if_it_is_told() -> None:
    assert {name.split(".")[0] for name in shapes_of(experiment("plain"))} == {"base"}
    named = shapes_of(experiment("plain", head="fc"))
    assert {"base.conv.weight", "base.norm.running_mean", "head.weight", "head.bias"} <= {
        *named
    }
    assert buffers_of(experiment("plain", head="fc")) == {
        f"base.norm.{name}" for name in ("running_mean", "running_var", "num_batches_tracked")
    }


def test_parts_and_whole_compute_the_same() -> None:
    whole, parts = (user_model(experiment("plain", head=head)) for head in ("", "fc"))
    images = torch.rand(3, 1, 28, 28)
    assert torch.equal(whole(images), parts(images))


@pytest.mark.parametrize(
    ("function", "head", "algorithm", "problem"),
    [
        ("plain", "", "fedrep", "name that part in model.head: the model has conv, norm, fc"),
        ("plain", "fx", "fedavg", "model.head is 'fx', which the model does not have; did you"),
        ("plain", "nothing", "fedavg", "does not have; it has conv, norm, fc"),
        (
            "plain",
            "conv",
            "fedavg",
            "model.head is 'conv', but the model does not work without",
        ),
        ("plain_and_more", "fc", "fedavg", "model.head is 'fc', but the model does more after"),
    ],
)
def test_a_head_that_cannot_be_one_is_refused(
    function: str, head: str, algorithm: str, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        checked(experiment(function, head=head, algorithm=algorithm))


def test_only_a_model_of_ones_own_has_a_head_with_a_name() -> None:
    with pytest.raises(ConfigError, match=r"model.head is 'fc', but convnet is not a model of"):
        checked(Experiment(model=ModelSection(head="fc")))


@pytest.mark.slow  # torchvision takes seconds to import
def test_torchvisions_networks_have_their_names_and_a_head() -> None:
    shapes = shapes_of(experiment("torchvision:mobilenet_v3_small"))
    assert shapes["base.features.0.0.weight"] == (16, 3, 3, 3)
    assert shapes["head.3.weight"] == (10, 1024)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("torchvision:resnet81", "which torchvision does not have; did you mean 'resnet18'?"),
        (
            "torchvision:mobilenet_v3_small",
            r"with inputs of shape \(1, 28, 28\): RuntimeError: .*3 channel",
        ),
    ],
)
def test_a_network_that_torchvision_lacks_or_that_does_not_fit_is_refused(
    name: str, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        checked(experiment(name))


def test_without_torchvision_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torchvision.models", None)
    with pytest.raises(ConfigError, match="which needs torchvision: pip install torchvision"):
        checked(experiment("torchvision:resnet18"))


@pytest.mark.slow
@pytest.mark.parametrize("side", [32, 224])
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small"])
def test_torchvisions_networks_train_on_small_and_large_images(name: str, side: int) -> None:
    shape = (3, side, side)
    trial = (torch.zeros(2, *shape),)
    rng = np.random.default_rng(1)
    model = make_user_model(
        f"torchvision:{name}", "", shape=shape, classes=5, rng=rng, trial=trial
    )
    net = TorchNet(model)
    images = rng.integers(0, 256, (5, *shape), np.uint8)  # the last batch has one sample
    samples = Samples((images,), np.arange(5))
    before = extract(net)
    stats = train(net, samples, TrainingSection(epochs=1, batch_size=2), rng)
    after = extract(net)
    assert math.isfinite(stats.loss)
    assert all(np.isfinite(array).all() for array in after.values())
    moved = {
        part.split(".")[0] for part in after if not np.array_equal(after[part], before[part])
    }
    assert moved == {"base", "head"}
