from __future__ import annotations

import math

import numpy as np
import pytest

from common.arrays import digest, part_of
from common.errors import ConfigError
from common.learning.specs import ModelOptions, build_spec, initial
from common.rng import generator

MNIST, CIFAR, TEXT = (1, 28, 28), (3, 32, 32), (80,)


VALID, BETWEEN = ModelOptions(padding="valid"), ModelOptions(pool="between")


def size(
    name: str,
    shape: tuple[int, ...],
    classes: int,
    part: str = "",
    options: ModelOptions | None = None,
) -> int:
    depth = int(part.removeprefix("head")) if part else 1
    shapes = build_spec(
        name, shape=shape, classes=classes, head_depth=depth, options=options
    ).shapes()
    return sum(
        math.prod(shape)
        for name, shape in shapes.items()
        if not part or part_of(name) == "head"
    )


@pytest.mark.parametrize(
    ("name", "shape", "classes", "parameters"),
    [
        ("dnn", MNIST, 10, 79_510),
        ("dnn", CIFAR, 10, 308_310),
        ("convnet", MNIST, 10, 573_578),
        ("convnet", CIFAR, 10, 797_962),
        ("convnet", CIFAR, 100, 815_332),
        ("convnet", MNIST, 47, 580_719),
        ("convnet", MNIST, 62, 583_614),
        ("convnet", MNIST, 26, 576_666),
        ("convnet", (3, 32, 32), 200, 834_632),
        ("small", MNIST, 10, 22_282),
        ("mcmahan", MNIST, 10, 1_663_370),
        ("cifar-cnn", CIFAR, 10, 2_193_418),
        ("s2cnn", MNIST, 10, 1_199_882),
        ("char-lstm", TEXT, 80, 819_920),
    ],
)
def test_a_model_has_its_known_number_of_parameters(
    name: str, shape: tuple[int, ...], classes: int, parameters: int
) -> None:
    assert size(name, shape, classes) == parameters


@pytest.mark.parametrize(
    ("name", "shape", "options", "parameters"),
    [
        ("dnn", MNIST, ModelOptions(hidden=7), 5_575),
        ("mcmahan", MNIST, VALID, 582_026),
        ("mcmahan", CIFAR, VALID, 878_538),
        ("cifar-cnn", CIFAR, VALID, 915_466),
        ("s2cnn", MNIST, BETWEEN, 1_011_466),
    ],
)
def test_an_option_changes_the_number_of_parameters(
    name: str, shape: tuple[int, int, int], options: ModelOptions, parameters: int
) -> None:
    assert size(name, shape, 10, options=options) == parameters


@pytest.mark.parametrize(
    ("name", "shape", "part", "parameters"),
    [
        ("dnn", MNIST, "head1", 1_010),
        ("convnet", MNIST, "head1", 1_930),
        ("convnet", MNIST, "head2", 75_850),
        ("convnet", MNIST, "head3", 469_450),
        ("convnet", CIFAR, "head1", 1_930),
        ("convnet", CIFAR, "head2", 75_850),
        ("convnet", CIFAR, "head3", 690_634),
        ("small", MNIST, "head1", 330),
        ("small", MNIST, "head2", 2_410),
        ("small", MNIST, "head3", 18_858),
        ("mcmahan", MNIST, "head1", 5_130),
        ("mcmahan", MNIST, "head2", 1_611_274),
        ("cifar-cnn", CIFAR, "head1", 5_130),
        ("cifar-cnn", CIFAR, "head2", 2_102_794),
        ("s2cnn", MNIST, "head1", 1_290),
        ("s2cnn", MNIST, "head2", 1_181_066),
    ],
)
def test_a_head_has_its_known_number_of_parameters(
    name: str, shape: tuple[int, int, int], part: str, parameters: int
) -> None:
    assert size(name, shape, 10, part) == parameters


@pytest.mark.parametrize(
    ("name", "shape", "options", "part", "parameters"),
    [
        ("mcmahan", MNIST, VALID, "head1", 5_130),
        ("mcmahan", MNIST, VALID, "head2", 529_930),
        ("cifar-cnn", CIFAR, VALID, "head2", 824_842),
        ("s2cnn", MNIST, BETWEEN, "head2", 992_650),
    ],
)
def test_an_option_changes_the_head(
    name: str, shape: tuple[int, int, int], options: ModelOptions, part: str, parameters: int
) -> None:
    assert size(name, shape, 10, part, options) == parameters


@pytest.mark.parametrize(
    ("name", "shape", "classes", "part", "parameters"),
    [
        ("convnet", CIFAR, 100, "head1", 19_300),
        ("convnet", CIFAR, 200, "head1", 38_600),
        ("convnet", MNIST, 47, "head1", 9_071),
        ("char-lstm", TEXT, 80, "head1", 20_560),
    ],
)
def test_more_classes_make_a_larger_head(
    name: str, shape: tuple[int, ...], classes: int, part: str, parameters: int
) -> None:
    assert size(name, shape, classes, part) == parameters


def test_the_arrays_of_a_recurrent_model_are_named_as_torch_names_them() -> None:
    spec = build_spec("char-lstm", shape=TEXT, classes=80, head_depth=1)
    assert spec.shapes() == {
        "base.0.0.weight": (80, 8),
        "base.1.0.weight_ih_l0": (1024, 8),
        "base.1.0.weight_hh_l0": (1024, 256),
        "base.1.0.bias_ih_l0": (1024,),
        "base.1.0.bias_hh_l0": (1024,),
        "base.1.0.weight_ih_l1": (1024, 256),
        "base.1.0.weight_hh_l1": (1024, 256),
        "base.1.0.bias_ih_l1": (1024,),
        "base.1.0.bias_hh_l1": (1024,),
        "head.2.0.weight": (80, 256),
        "head.2.0.bias": (80,),
    }


def test_first_values_of_a_recurrent_model_are_distributed_as_torch_draws_them() -> None:
    spec = build_spec("char-lstm", shape=TEXT, classes=80, head_depth=1)
    arrays = initial(spec, generator(1, "initial"))
    assert all(array.dtype == np.float32 for array in arrays.values())
    symbols = arrays.pop("base.0.0.weight")
    assert abs(float(symbols.mean())) < 0.15
    assert abs(float(symbols.std()) - 1) < 0.1
    for array in arrays.values():  # 256 hidden values, and 256 inputs of the head
        assert 0.8 / 16 < np.abs(array).max() <= 1.000001 / 16


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("convnet", TEXT, "expected 'char-lstm', as the dataset is text"),
        ("dnn", TEXT, "expected 'char-lstm', as the dataset is text"),
        ("char-lstm", CIFAR, "'convnet' or .*, as the dataset is images"),
    ],
)
def test_a_model_for_another_kind_of_samples_is_refused(
    name: str, shape: tuple[int, ...], expected: str
) -> None:
    with pytest.raises(ConfigError, match=rf"model.name is '{name}'; .*{expected}"):
        build_spec(name, shape=shape, classes=80, head_depth=1)


def test_moving_the_split_renames_the_part_and_nothing_else() -> None:
    one, three = (
        build_spec("convnet", shape=MNIST, classes=10, head_depth=depth).shapes()
        for depth in (1, 3)
    )
    assert list(one) == [
        "base.0.0.weight",
        "base.0.0.bias",
        "base.1.0.weight",
        "base.1.0.bias",
        "base.2.0.weight",
        "base.2.0.bias",
        "base.3.0.weight",
        "base.3.0.bias",
        "head.4.0.weight",
        "head.4.0.bias",
    ]
    assert [name.split(".", 1)[1] for name in one] == [name.split(".", 1)[1] for name in three]
    assert next(name for name in three if part_of(name) == "head") == "head.2.0.weight"
    assert list(one.values()) == list(three.values())


def test_an_unknown_model_names_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"'convnte'; did you mean 'convnet'\?"):
        build_spec("convnte", shape=MNIST, classes=10, head_depth=1)


@pytest.mark.parametrize(
    ("name", "depth", "expected"),
    [
        ("dnn", 2, "expected 1 for"),
        ("convnet", 4, "1 to 3"),
        ("convnet", 0, "1 to 3"),
        ("small", 4, "1 to 3"),
        ("mcmahan", 3, "1 to 2"),
        ("cifar-cnn", 3, "1 to 2"),
        ("s2cnn", 3, "1 to 2"),
        ("char-lstm", 2, "expected 1 for"),
    ],
)
def test_a_head_deeper_than_the_linear_blocks_is_refused(
    name: str, depth: int, expected: str
) -> None:
    shape = TEXT if name == "char-lstm" else MNIST
    with pytest.raises(ConfigError, match=rf"model.head_depth is {depth}; .*{expected}"):
        build_spec(name, shape=shape, classes=10, head_depth=depth)


@pytest.mark.parametrize(
    ("name", "height", "width"),
    [("convnet", 15, 28), ("convnet", 1, 1), ("mcmahan", 28, 3), ("s2cnn", 5, 5)],
)
def test_images_too_small_for_the_convolutions_are_refused(
    name: str, height: int, width: int
) -> None:
    build_spec(name, shape=(1, 16, 16), classes=10, head_depth=1)
    with pytest.raises(ConfigError, match=f"{name}.*{height}x{width} are too small"):
        build_spec(name, shape=(1, height, width), classes=10, head_depth=1)


def test_first_values_fill_the_range_of_their_fan_in() -> None:
    spec = build_spec("convnet", shape=MNIST, classes=10, head_depth=1)
    arrays = initial(spec, generator(1, "initial"))
    assert {name: array.shape for name, array in arrays.items()} == spec.shapes()
    assert all(array.dtype == np.float32 for array in arrays.values())
    fan_in = {"base.0.0": 25, "base.1.0": 1600, "base.2.0": 1024, "head.4.0": 192}
    for layer, fan in fan_in.items():
        bound = 1 / math.sqrt(fan)
        assert 0.99 * bound < np.abs(arrays[f"{layer}.weight"]).max() <= bound * 1.000001
        assert np.abs(arrays[f"{layer}.bias"]).max() <= bound * 1.000001
        assert abs(float(arrays[f"{layer}.weight"].mean())) < 0.1 * bound


def test_first_values_depend_on_the_seed_only() -> None:
    spec = build_spec("dnn", shape=MNIST, classes=10, head_depth=1)
    one, same, other = (digest(initial(spec, generator(seed, "initial"))) for seed in (1, 1, 2))
    assert one == same == "49ceec1284ec20825fbb5b681cfb8078"
    assert one != other
