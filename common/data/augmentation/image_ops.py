"""PURE: operations on many images at once, each with its own parameter; bytes in, bytes out.

Only numpy. Whole numbers, or floats one operation at a time: no result depends on the machine.
Images are [n, channels, height, width], parameters [n].
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from common.data.samples import Images

Levels: TypeAlias = npt.NDArray[np.float64]

COLOURS = 3  # channels of a colour image: red, green, blue


def moved(images: Images, matrices: npt.NDArray[np.float64]) -> Images:
    """Each image moved by its own 2x3 matrix; what comes from outside is black.

    A matrix gives where a pixel comes from, in pixels from the centre: (x, y, 1) -> (x, y); the
    nearest pixel there is taken.
    """
    count, channels, height, width = images.shape
    x = np.arange(width) - (width - 1) / 2
    y = (np.arange(height) - (height - 1) / 2)[:, None]
    m = matrices[:, :, :, None, None]
    column = np.rint(m[:, 0, 0] * x + m[:, 0, 1] * y + m[:, 0, 2] + (width - 1) / 2)
    row = np.rint(m[:, 1, 0] * x + m[:, 1, 1] * y + m[:, 1, 2] + (height - 1) / 2)
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    black = height * width
    places = np.where(inside, row * width + column, black).astype(np.intp)
    flat = np.zeros((count, channels, black + 1), np.uint8)
    flat[:, :, :black] = images.reshape(count, channels, black)
    taken = np.take_along_axis(flat, places.reshape(count, 1, black), axis=2)
    return taken.reshape(images.shape)


def matrices(
    xx: npt.ArrayLike, xy: npt.ArrayLike, x: npt.ArrayLike,
    yx: npt.ArrayLike, yy: npt.ArrayLike, y: npt.ArrayLike,
) -> npt.NDArray[np.float64]:  # fmt: skip
    """The 2x3 matrices with these entries, row by row; numbers hold for all."""
    entries = np.broadcast_arrays(xx, xy, x, yx, yy, y)
    return np.stack(entries, axis=-1).astype(np.float64).reshape(-1, 2, 3)


def rotated(images: Images, degrees: Levels) -> Images:
    """Rotated around the centre, counterclockwise."""
    cosine, sine = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return moved(images, matrices(cosine, -sine, 0, sine, cosine, 0))


def shifted(images: Images, right: Levels, down: Levels) -> Images:
    """Moved by whole pixels."""
    return moved(images, matrices(1, 0, -np.trunc(right), 0, 1, -np.trunc(down)))


def brightened(images: Images, factors: Levels) -> Images:
    """Mixed with black."""
    return _blended(images, np.zeros(1, np.float32), factors)


def contrasted(images: Images, factors: Levels) -> Images:
    """Mixed with the mean grey of the image."""
    grey = _grey(images)
    mean = grey.sum((1, 2, 3), dtype=np.int64) / grey[0].size
    return _blended(images, _each(mean), factors)


def saturated(images: Images, factors: Levels) -> Images:
    """Mixed with the grey of each pixel; grey images stay."""
    if images.shape[1] != COLOURS:
        return images
    return _blended(images, _grey(images).astype(np.float32), factors)


def sharpened(images: Images, factors: Levels) -> Images:
    """Mixed with a blurred image, except at the border."""
    height, width = images.shape[2:]
    blurred = images.astype(np.float32)
    if height > 2 and width > 2:
        wide = images.astype(np.uint16)
        rows = [wide[:, :, top : height - 2 + top] for top in range(3)]
        total = 4 * wide[:, :, 1:-1, 1:-1]
        for row in rows:
            for left in range(3):
                total = total + row[:, :, :, left : width - 2 + left]
        blurred[:, :, 1:-1, 1:-1] = (2 * total + 13) // 26  # the sum of the weights is 13
    return _blended(images, blurred, factors)


def hue_shifted(images: Images, turns: Levels) -> Images:
    """Colours turned around the colour circle; grey images stay."""
    if images.shape[1] != COLOURS:
        return images
    wide = images.astype(np.float32)
    red, green, blue = wide[:, 0], wide[:, 1], wide[:, 2]
    value = wide.max(1)
    chroma = value - wide.min(1)
    divisor = np.where(chroma > 0, chroma, np.float32(1))
    hue = np.where(
        value == red,
        (green - blue) / divisor,
        np.where(value == green, (blue - red) / divisor + 2, (red - green) / divisor + 4),
    )
    hue += (6 * turns).astype(np.float32)[:, None, None]
    made = np.empty_like(images)
    for channel, place in enumerate((5, 3, 1)):
        around = hue + np.float32(place)
        around -= 6 * np.floor(around / 6)
        part = np.clip(np.minimum(around, 4 - around), 0, 1)
        made[:, channel] = np.rint(value - chroma * part)
    return made


def posterized(images: Images, bits: Levels) -> Images:
    """Only the highest bits of each byte."""
    masks = (256 - 2 ** (8 - bits.astype(np.int64))).astype(np.uint8)
    return images & masks[:, None, None, None]


def solarized(images: Images, thresholds: Levels) -> Images:
    """Values at or above the threshold inverted (solarize)."""
    return np.where(images >= _each(thresholds), 255 - images, images)


def inverted(images: Images) -> Images:
    """All values inverted."""
    return 255 - images


def stretched(images: Images) -> Images:
    """Each channel stretched from black to white (autocontrast)."""
    low = images.min((2, 3), keepdims=True).astype(np.int32)
    span = images.max((2, 3), keepdims=True) - low
    wide = (images - low) * 255 // np.maximum(span, 1)
    return np.where(span > 0, wide, images).astype(np.uint8)


def equalized(images: Images) -> Images:
    """Each channel with about equally frequent values (histogram equalization)."""
    count, channels, height, width = images.shape
    flat = images.reshape(count * channels, height * width)
    rows = np.arange(len(flat))[:, None]
    histogram = np.bincount((rows * 256 + flat).ravel(), minlength=len(flat) * 256)
    histogram = histogram.reshape(len(flat), 256)
    lightest = histogram[rows[:, 0], flat.max(1)]
    step = ((height * width - lightest) // 255)[:, None]
    below = histogram.cumsum(1) - histogram
    table = np.minimum((below + step // 2) // np.maximum(step, 1), 255)
    table = np.where(step > 0, table, np.arange(256)).astype(np.uint8)
    return table[rows, flat].reshape(images.shape)


def _each(levels: Levels) -> npt.NDArray[np.float32]:
    return levels.astype(np.float32)[:, None, None, None]


def _grey(images: Images) -> npt.NDArray[np.uint32]:
    """The brightness of each pixel, in one channel."""
    wide = images.astype(np.uint32)
    if images.shape[1] != COLOURS:
        return wide
    return (299 * wide[:, :1] + 587 * wide[:, 1:2] + 114 * wide[:, 2:]) // 1000


def _blended(images: Images, others: npt.NDArray[np.float32], factors: Levels) -> Images:
    """factor * image + (1 - factor) * other, as bytes."""
    mixed = images * _each(factors)
    mixed += others * _each(1 - factors)
    np.clip(np.rint(mixed, out=mixed), 0, 255, out=mixed)
    return mixed.astype(np.uint8)
