"""Tiny ImageNet: 64x64 JPEGs in a folder or in the official archive, reduced to 32x32.

The official test part has no labels, so the validation part stands in for it. Classes are
numbered in the order of their WordNet ids.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from common.data.datasets.base import SamplePool
from common.data.datasets.files import check_digest
from common.data.datasets.jpeg import decode_picture
from common.errors import DataError

SIDE = 64
CLASSES, EACH, VALIDATION = 200, 500, 10_000
TOP = "tiny-imagenet-200"


@dataclass(frozen=True, slots=True)
class TinyImages:
    """How many classes there are, images of each to train, and images to test."""

    classes: int = CLASSES
    each: int = EACH
    validation: int = VALIDATION

    def pool(self, folder: Path, read: Callable[[str], bytes]) -> SamplePool:
        """All samples; `read` gives the content of a file in `folder`."""
        named = list(self._named(folder, read))
        images = np.empty((len(named), 3, SIDE // 2, SIDE // 2), np.uint8)
        for place, (name, _) in zip(images, named, strict=True):
            place[:] = _halved(folder / name, read(name))
        return SamplePool(images, np.array([label for _, label in named], np.int64))

    def _named(self, folder: Path, read: Callable[[str], bytes]) -> Iterator[tuple[str, int]]:
        """The name and the class of each image."""
        ids = sorted(read("wnids.txt").decode("ascii", "replace").split())
        if len(set(ids)) != self.classes:
            raise DataError(
                f"{folder / 'wnids.txt'} is damaged: expected {self.classes} classes"
            )
        for label, wordnet in enumerate(ids):
            for number in range(self.each):
                yield f"train/{wordnet}/images/{wordnet}_{number}.JPEG", label
        notes = read("val/val_annotations.txt").decode("ascii", "replace").splitlines()
        labels = {words[0]: words[1] for words in map(str.split, notes) if len(words) > 1}
        for number in range(self.validation):
            name = f"val_{number}.JPEG"
            if labels.get(name) not in ids:
                place = folder / "val" / "val_annotations.txt"
                raise DataError(f"{place} is damaged: it has no class of {name}")
            yield f"val/images/{name}", ids.index(labels[name])


@dataclass(frozen=True, slots=True)
class TinyFolder:
    """The unpacked archive. No digests of its single files were published."""

    images: TinyImages = TinyImages()

    @property
    def files(self) -> tuple[str, ...]:
        """The two lists among its files."""
        return ("wnids.txt", "val/val_annotations.txt")

    def read(self, folder: Path) -> SamplePool:
        """All samples."""

        def read(name: str) -> bytes:
            try:
                return (folder / name).read_bytes()
            except OSError as error:
                raise DataError(f"{folder / name} cannot be read: {error}") from error

        return self.images.pool(folder, read)


@dataclass(frozen=True, slots=True)
class TinyZip:
    """The official archive."""

    md5: str
    images: TinyImages = TinyImages()
    name: str = f"{TOP}.zip"

    @property
    def files(self) -> tuple[str, ...]:
        """The archive."""
        return (self.name,)

    def read(self, folder: Path) -> SamplePool:
        """All samples."""
        path = folder / self.name
        check_digest(path, "md5", self.md5)
        with zipfile.ZipFile(path) as archive:

            def read(name: str) -> bytes:
                try:
                    return archive.read(f"{TOP}/{name}")
                except (KeyError, OSError, zipfile.BadZipFile) as error:
                    raise DataError(f"{path} is damaged: {name}: {error}") from error

            return self.images.pool(path, read)


def _halved(place: Path, content: bytes) -> npt.NDArray[np.uint8]:
    """The mean of every 2x2 pixels, in whole numbers: [3, 32, 32]."""
    picture = decode_picture(place, content)
    if picture.shape != (SIDE, SIDE, 3):
        raise DataError(f"{place} is damaged: it has {picture.shape} values")
    squares = picture.reshape(SIDE // 2, 2, SIDE // 2, 2, 3).sum((1, 3), np.uint16)
    halved: npt.NDArray[np.uint8] = ((squares + 2) // 4).astype(np.uint8).transpose(2, 0, 1)
    return halved
