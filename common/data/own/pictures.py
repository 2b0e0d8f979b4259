"""Folders of images: a sub-folder for each class, read by Pillow (the extra `data`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from common.data.own.parts import Part
from common.errors import DataError

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp"}
COLOURS = 3


def classes_in(folder: Path) -> tuple[str, ...]:
    """The names of the sub-folders, sorted: the classes."""
    try:
        names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    except OSError as error:
        raise DataError(f"{folder} cannot be read: {error}") from error
    return tuple(name for name in names if not name.startswith("."))


def read_pictures(folder: Path, side: int) -> Part:
    """All images, uint8 [n, channels, height, width]; grey only if all are grey."""
    classes = classes_in(folder)
    paths = [(path, name) for name in classes for path in _images(folder / name)]
    if not paths:
        raise DataError(
            f"{folder} has no images; expected a sub-folder for each class, with .png or .jpg "
            "files in it"
        )
    if empty := sorted(set(classes) - {name for _, name in paths}):
        raise DataError(f"{folder / empty[0]} has no images; delete it, or put some in")
    pictures = [_decoded(path, side) for path, _ in paths]
    grey = all(picture.ndim == 2 for picture in pictures)
    made = [
        picture if grey or picture.ndim == COLOURS else _coloured(picture)
        for picture in pictures
    ]
    for (path, _), picture in zip(paths, made, strict=True):
        if picture.shape != made[0].shape:
            raise DataError(
                f"{path} is {_size(picture)}, but {paths[0][0].name} is {_size(made[0])}; "
                "expected equal sizes: set data.image_size"
            )
    stacked = np.stack(made)
    images = stacked[:, None] if grey else stacked.transpose(0, 3, 1, 2)
    labels = np.array([name for _, name in paths], np.str_)
    return Part(str(folder), {"image": np.ascontiguousarray(images), "label": labels})


def _images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)


def _decoded(path: Path, side: int) -> npt.NDArray[np.uint8]:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise DataError(
            f"{path} is read with Pillow, which is not installed: pip install pillow"
        ) from error
    try:
        with Image.open(path) as picture:
            made = picture.convert("L" if picture.mode in ("1", "L") else "RGB")
            if side:
                made = made.resize((side, side), Image.Resampling.BILINEAR)
            return np.asarray(made)
    except (OSError, SyntaxError, ValueError, UnidentifiedImageError) as error:
        raise DataError(f"{path} is not a whole image: {error}") from error


def _coloured(picture: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return np.repeat(picture[..., None], COLOURS, axis=2)


def _size(picture: npt.NDArray[np.uint8]) -> str:
    return f"{picture.shape[1]}x{picture.shape[0]}"
