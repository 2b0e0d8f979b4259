"""PURE: augmented copies of images, one for each, that show the same thing.

Only numpy, no torch: every machine makes the same bytes from the same draws.
"""

from __future__ import annotations

import numpy as np

from common.data.augmentation.autoaugment import autoaugment
from common.data.augmentation.image_ops import (
    COLOURS,
    brightened,
    contrasted,
    hue_shifted,
    matrices,
    moved,
    rotated,
    saturated,
)
from common.data.rebalance import Augmentation
from common.data.samples import Images
from common.errors import DataError

CHUNK = 1000  # images at a time: bounds the memory; another number gives other draws
PADDING = 4  # pixels of a crop
TURN = 15.0  # degrees
JITTER = 0.2  # of brightness, contrast and saturation
HUE = 0.1  # of the colour circle
SHIFT = 0.1  # of the image
ZOOM = 0.1


def augmented(images: Images, augmentation: Augmentation, rng: np.random.Generator) -> Images:
    """A new image for each of these, of the same shape."""
    if augmentation == "duplicate":
        return images
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1] not in (1, COLOURS):
        raise DataError(
            f"the augmentation {augmentation!r} is for images with 1 or 3 channels, not for "
            f"samples of shape {images.shape[1:]}; expected 'duplicate'"
        )
    made = np.empty_like(images)
    for start in range(0, len(images), CHUNK):
        part = slice(start, start + CHUNK)
        change = five_step if augmentation == "five_step" else autoaugment
        made[part] = change(images[part], rng)
    return made


def five_step(images: Images, rng: np.random.Generator) -> Images:
    """Flip, crop, rotation, colour jitter, shift and zoom: each image by its own draws."""
    count, channels, height, width = images.shape
    side = rng.choice([-1.0, 1.0], count)
    right, down = rng.integers(-PADDING, PADDING + 1, (2, count))
    made = moved(images, matrices(side, 0, side * right, 0, 1, down))
    made = rotated(made, TURN * rng.uniform(-1, 1, (count,)))
    if channels == COLOURS:
        made = _jittered(made, rng)
    right = np.rint(rng.uniform(-SHIFT * width, SHIFT * width, count))
    down = np.rint(rng.uniform(-SHIFT * height, SHIFT * height, count))
    zoom = rng.uniform(1 - ZOOM, 1 + ZOOM, count)
    return moved(made, matrices(1 / zoom, 0, -right / zoom, 0, 1 / zoom, -down / zoom))


def _jittered(images: Images, rng: np.random.Generator) -> Images:
    light, contrast, colour = rng.uniform(1 - JITTER, 1 + JITTER, (3, len(images)))
    made = saturated(contrasted(brightened(images, light), contrast), colour)
    return hue_shifted(made, rng.uniform(-HUE, HUE, len(images)))
