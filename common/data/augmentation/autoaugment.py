"""PURE: AutoAugment's policy for CIFAR-10 (Cubuk et al., 2019), on many images at once.

Each image draws one of 25 pairs of operations; each operation happens with its probability, at
its level of 0 to 9, some of them in a random direction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from common.data.augmentation.image_ops import (
    Levels,
    brightened,
    contrasted,
    equalized,
    inverted,
    matrices,
    moved,
    posterized,
    rotated,
    saturated,
    sharpened,
    shifted,
    solarized,
    stretched,
)
from common.data.samples import Images

Operation: TypeAlias = Callable[[Images, Levels], Images]
Step: TypeAlias = tuple[str, float, int]  # operation, probability, level

TOP = 9  # the highest level
FARTHEST = 150 / 331  # of a shift, as a share of the image

POLICY: tuple[tuple[Step, Step], ...] = (
    (("invert", 0.1, 0), ("contrast", 0.2, 6)),
    (("rotate", 0.7, 2), ("shift-x", 0.3, 9)),
    (("sharpness", 0.8, 1), ("sharpness", 0.9, 3)),
    (("shear-y", 0.5, 8), ("shift-y", 0.7, 9)),
    (("stretch", 0.5, 0), ("equalize", 0.9, 0)),
    (("shear-y", 0.2, 7), ("posterize", 0.3, 7)),
    (("colour", 0.4, 3), ("brightness", 0.6, 7)),
    (("sharpness", 0.3, 9), ("brightness", 0.7, 9)),
    (("equalize", 0.6, 0), ("equalize", 0.5, 0)),
    (("contrast", 0.6, 7), ("sharpness", 0.6, 5)),
    (("colour", 0.7, 7), ("shift-x", 0.5, 8)),
    (("equalize", 0.3, 0), ("stretch", 0.4, 0)),
    (("shift-y", 0.4, 3), ("sharpness", 0.2, 6)),
    (("brightness", 0.9, 6), ("colour", 0.2, 8)),
    (("solarize", 0.5, 2), ("invert", 0.0, 0)),
    (("equalize", 0.2, 0), ("stretch", 0.6, 0)),
    (("equalize", 0.2, 0), ("equalize", 0.6, 0)),
    (("colour", 0.9, 9), ("equalize", 0.6, 0)),
    (("stretch", 0.8, 0), ("solarize", 0.2, 8)),
    (("brightness", 0.1, 3), ("colour", 0.7, 0)),
    (("solarize", 0.4, 5), ("stretch", 0.9, 0)),
    (("shift-y", 0.9, 9), ("shift-y", 0.7, 9)),
    (("stretch", 0.9, 0), ("solarize", 0.8, 3)),
    (("equalize", 0.8, 0), ("invert", 0.1, 0)),
    (("shift-y", 0.7, 9), ("stretch", 0.9, 0)),
)


def _shear_y(images: Images, levels: Levels) -> Images:
    """Sheared along the columns, the left one staying."""
    strength = 0.3 * levels / TOP
    return moved(images, matrices(1, 0, 0, strength, 1, strength * images.shape[3] / 2))


def _shift_x(images: Images, levels: Levels) -> Images:
    right = FARTHEST * images.shape[3] * levels / TOP
    return shifted(images, right, np.zeros_like(right))


def _shift_y(images: Images, levels: Levels) -> Images:
    down = FARTHEST * images.shape[2] * levels / TOP
    return shifted(images, np.zeros_like(down), down)


def _factor(levels: Levels) -> Levels:
    return 1 + 0.9 * levels / TOP


# what a level means; levels come with a random sign, which some operations ignore
OPERATIONS: dict[str, Operation] = {
    "shear-y": _shear_y,
    "shift-x": _shift_x,
    "shift-y": _shift_y,
    "rotate": lambda images, levels: rotated(images, 30 * levels / TOP),
    "brightness": lambda images, levels: brightened(images, _factor(levels)),
    "colour": lambda images, levels: saturated(images, _factor(levels)),
    "contrast": lambda images, levels: contrasted(images, _factor(levels)),
    "sharpness": lambda images, levels: sharpened(images, _factor(levels)),
    "posterize": lambda images, levels: posterized(
        images, 8 - np.rint(4 * np.abs(levels) / TOP)
    ),
    "solarize": lambda images, levels: solarized(images, 255 - 255 * np.abs(levels) / TOP),
    "stretch": lambda images, _: stretched(images),
    "equalize": lambda images, _: equalized(images),
    "invert": lambda images, _: inverted(images),
}


def autoaugment(images: Images, rng: np.random.Generator) -> Images:
    """Each image after a pair of operations of its own."""
    made = images.copy()
    pairs = rng.integers(len(POLICY), size=len(images))
    chances = rng.random((len(images), 2))
    signs = rng.choice([-1.0, 1.0], (len(images), 2))
    for turn in range(2):
        for number, pair in enumerate(POLICY):
            name, probability, level = pair[turn]
            ours = np.flatnonzero((pairs == number) & (chances[:, turn] < probability))
            if len(ours):
                made[ours] = OPERATIONS[name](made[ours], level * signs[ours, turn])
    return made
