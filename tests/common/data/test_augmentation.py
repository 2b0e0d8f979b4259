from __future__ import annotations

import hashlib
import itertools
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from common.data.augmentation.autoaugment import OPERATIONS, POLICY
from common.data.augmentation.five_step import CHUNK, augmented
from common.data.augmentation.image_ops import (
    brightened,
    contrasted,
    equalized,
    hue_shifted,
    matrices,
    moved,
    posterized,
    saturated,
    shifted,
    solarized,
    stretched,
)
from common.data.datasets import load_dataset
from common.data.datasets.torchvision_import import import_datasets
from common.data.rebalance import Augmentation
from common.data.samples import Images
from common.errors import DataError
from common.rng import generator


def pictures(count: int, channels: int) -> Images:
    """Real images; those with colours are made of three of them."""
    grey = load_dataset("fmnist-mini").inputs[0][: count * channels]
    return grey.reshape(count, channels, 28, 28)


def one(*rows: list[int]) -> Images:
    return np.array([[rows]], np.uint8)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("augmentation", ["five_step", "autoaugment"])
def test_copies_are_other_images_that_are_still_alike(
    augmentation: Augmentation, channels: int
) -> None:
    images = pictures(300, channels)
    made = augmented(images, augmentation, generator(1, "x"))
    assert (made.shape, made.dtype.name) == (images.shape, "uint8")
    changed = (made != images).any((1, 2, 3))
    assert changed.mean() > {"five_step": 0.99, "autoaugment": 0.5}[augmentation]
    far, own = (
        np.abs(other.astype(int) - made).mean((1, 2, 3))
        for other in (np.roll(images, 1, axis=0), images)
    )
    assert (own < far).mean() > 0.8


@pytest.mark.parametrize(
    ("augmentation", "channels", "expected"),
    [
        ("five_step", 1, "ad4e2879de8ea2a0"),
        ("five_step", 3, "c14bbbea574044ab"),
        ("autoaugment", 1, "440639f15c998f6b"),
        ("autoaugment", 3, "df8018ca4dcb651a"),
    ],
)
def test_the_same_draws_make_the_same_bytes_everywhere(
    augmentation: Augmentation, channels: int, expected: str
) -> None:
    made = augmented(pictures(500, channels), augmentation, generator(1, "x"))
    assert hashlib.sha256(made.tobytes()).hexdigest()[:16] == expected


@pytest.mark.parametrize("augmentation", ["five_step", "autoaugment", "duplicate"])
@given(st.integers(0, 3), st.sampled_from([1, 3]), st.integers(1, 9), st.integers(1, 9))
def test_images_of_any_size_and_number_keep_their_shape(
    augmentation: Augmentation, count: int, channels: int, height: int, width: int
) -> None:
    rng = generator(count, "images")
    images = rng.integers(0, 256, (count, channels, height, width), np.uint8)
    before = images.copy()
    assert augmented(images, augmentation, rng).shape == images.shape
    assert np.array_equal(images, before)


def test_more_images_than_a_chunk_are_all_augmented() -> None:
    images = np.repeat(pictures(1, 1), CHUNK + 500, axis=0)
    made = augmented(images, "five_step", generator(1, "x"))
    assert len(np.unique(made.reshape(len(made), -1), axis=0)) > CHUNK + 400
    assert made[CHUNK:].any((1, 2, 3)).all()


def test_text_cannot_be_turned_around() -> None:
    with pytest.raises(DataError, match=r"samples of shape \(80,\); expected 'duplicate'"):
        augmented(np.zeros((3, 80), np.uint8), "five_step", generator(1, "x"))
    assert len(augmented(np.zeros((3, 80), np.uint8), "duplicate", generator(1, "x"))) == 3


def test_images_are_moved_by_hand_computed_pixels() -> None:
    image = one([1, 2, 3], [4, 5, 6], [7, 8, 9])
    still, level = np.zeros(1), np.ones(1)
    assert np.array_equal(shifted(image, level, still), one([0, 1, 2], [0, 4, 5], [0, 7, 8]))
    assert np.array_equal(shifted(image, still, -level), one([4, 5, 6], [7, 8, 9], [0, 0, 0]))
    flipped = moved(image, matrices([-1.0], 0, 0, 0, 1, 0))
    assert np.array_equal(flipped, one([3, 2, 1], [6, 5, 4], [9, 8, 7]))
    turned = OPERATIONS["rotate"](image, np.array([27.0]))  # 90 degrees, against the clock
    assert np.array_equal(turned, one([3, 6, 9], [2, 5, 8], [1, 4, 7]))


def test_light_and_colours_are_changed_by_hand_computed_values() -> None:
    image = one([0, 100], [200, 100])
    assert brightened(image, np.array([1.5])).tolist() == [[[[0, 150], [255, 150]]]]
    assert contrasted(image, np.array([0.5])).tolist() == [[[[50, 100], [150, 100]]]]
    assert saturated(image, np.array([0.5])) is image
    assert hue_shifted(image, np.array([0.5])) is image
    assert posterized(image, np.array([1.0])).tolist() == [[[[0, 0], [128, 0]]]]
    assert solarized(image, np.array([200.0])).tolist() == [[[[0, 100], [55, 100]]]]
    assert stretched(one([50, 75], [100, 50])).tolist() == [[[[0, 127], [255, 0]]]]
    assert stretched(one([7, 7])).tolist() == [[[[7, 7]]]]
    assert equalized(one([1, 2, 3])).tolist() == [[[[1, 2, 3]]]]
    red = np.array([200, 0, 0], np.uint8).reshape(1, 3, 1, 1)
    thirds = [hue_shifted(red, np.array([turn])).ravel().tolist() for turn in (1 / 3, -1 / 3)]
    assert thirds == [[0, 200, 0], [0, 0, 200]]
    assert hue_shifted(red, np.zeros(1)).ravel().tolist() == [200, 0, 0]
    assert saturated(red, np.zeros(1)).ravel().tolist() == [59, 59, 59]


THEIRS = {
    "brightness": "Brightness",
    "colour": "Color",
    "contrast": "Contrast",
    "equalize": "Equalize",
    "invert": "Invert",
    "posterize": "Posterize",
    "rotate": "Rotate",
    "sharpness": "Sharpness",
    "shear-y": "ShearY",
    "shift-x": "TranslateX",
    "shift-y": "TranslateY",
    "solarize": "Solarize",
    "stretch": "AutoContrast",
}


@pytest.fixture(scope="module")
def theirs() -> ModuleType:
    """torchvision's AutoAugment, to compare with."""
    try:
        import_datasets()  # finds a way to import torchvision where its own does not work
    except ImportError:
        pytest.skip("torchvision is not installed")
    from torchvision.transforms import autoaugment

    return autoaugment  # type: ignore[no-any-return]  # torchvision has no types


@pytest.mark.slow  # torchvision takes seconds to import
def test_the_policy_is_torchvisions(theirs: ModuleType) -> None:
    names = {name: ours for ours, name in THEIRS.items()}
    policy = theirs.AutoAugment(theirs.AutoAugmentPolicy.CIFAR10).policies
    expected = [tuple((names[n], p, level or 0) for n, p, level in pair) for pair in policy]
    assert list(POLICY) == expected


@pytest.mark.slow
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("ours", sorted(OPERATIONS))
def test_an_operation_does_what_torchvisions_does(
    theirs: ModuleType, ours: str, channels: int
) -> None:
    images, name = pictures(12, channels), THEIRS[ours]
    space = theirs.AutoAugment()._augmentation_space(10, (28, 28))
    magnitudes, signed = space[name]
    for level, sign in itertools.product((0, 2, 5, 9), (-1, 1)):
        magnitude = float(magnitudes[level]) if magnitudes.ndim else 0.0
        magnitude *= sign if signed else 1
        nearest = theirs.InterpolationMode.NEAREST
        expected = [
            theirs._apply_op(torch.from_numpy(image), name, magnitude, nearest, None).numpy()
            for image in images
        ]
        made = OPERATIONS[ours](images, np.full(len(images), float(level * sign)))
        off = np.abs(made.astype(int) - np.stack(expected)) > 2  # they cut off, we round
        assert off.mean() < 0.01  # where two pixels are equally near


def test_every_operation_of_the_policy_is_there() -> None:
    assert {name for pair in POLICY for name, *_ in pair} == set(OPERATIONS) == set(THEIRS)
