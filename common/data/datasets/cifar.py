"""CIFAR-10 and CIFAR-100: the official "python version", and CIFAR-10 as sheets of images.

The official files are pickles. They are never unpickled: their bytes are walked through as
data, labels and pixels are picked out, and nothing in them is ever called or imported.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from common.data.datasets.base import SamplePool
from common.data.datasets.files import read_checked, require_file
from common.data.datasets.jpeg import decode_picture
from common.errors import DataError

SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32
SIDE = 100  # a sheet has as many rows and columns of images

_SHORT_STRING, _STRING, _GLOBAL, _LIST, _BYTE = b"U", b"T", b"c", b"]", b"K"
_STOP = b"."
# opcode -> how many bytes of argument follow; of strings and names the length is found there
_FIXED = {
    b"\x80": 1,  # protocol
    b"}": 0,  # empty dictionary
    b"(": 0,  # mark
    b"q": 1,  # remember, at a number of one byte
    b"r": 4,  # remember, at a number of four
    b"h": 1,  # what was remembered
    b"j": 4,
    _LIST: 0,
    b"e": 0,  # append all since the mark
    _BYTE: 1,  # integers
    b"M": 2,
    b"J": 4,
    b"N": 0,  # none
    b"\x89": 0,  # false
    b"\x85": 0,  # tuples
    b"\x86": 0,
    b"\x87": 0,
    b"t": 0,
    b"R": 0,  # where unpickling would call something
    b"b": 0,
    b"u": 0,  # set all items since the mark
}
_BETWEEN_LABELS = {b"q", b"r", b"(", b"e"}


@dataclass(frozen=True, slots=True)
class CifarBatch:
    """An official file and its digest."""

    name: str
    md5: str
    samples: int


@dataclass(frozen=True, slots=True)
class CifarBatches:
    """The official files; `labels` is the name under which they hold the labels."""

    batches: tuple[CifarBatch, ...]
    labels: bytes

    @property
    def files(self) -> tuple[str, ...]:
        """The names of all files."""
        return tuple(batch.name for batch in self.batches)

    def read(self, folder: Path) -> SamplePool:
        """All samples."""
        parts = []
        for batch in self.batches:
            path = require_file(folder, batch.name)
            content = read_checked(path, "md5", batch.md5)
            parts.append(_labels_and_pixels(path, content, self.labels, batch.samples))
        labels, pixels = (np.concatenate(column) for column in zip(*parts, strict=True))
        return SamplePool(pixels.reshape(-1, *SHAPE), labels.astype(np.int64))


@dataclass(frozen=True, slots=True)
class CifarSheet:
    """A lossless picture of 10,000 images, row by row, and whose labels they have.

    `sha256` is that of all records: for each image a byte of label and then its pixels.
    """

    name: str
    part: str
    first: int
    sha256: str


@dataclass(frozen=True, slots=True)
class CifarSheets:
    """CIFAR-10 packed into lossless WebP sheets beside a `labels.npz`."""

    sheets: tuple[CifarSheet, ...]
    side: int = SIDE

    @property
    def files(self) -> tuple[str, ...]:
        """The names of all files."""
        return (*(sheet.name for sheet in self.sheets), "labels.npz")

    def read(self, folder: Path) -> SamplePool:
        """All samples."""
        known = _label_arrays(folder / "labels.npz")
        records = [self._records(folder / sheet.name, sheet, known) for sheet in self.sheets]
        pool = np.concatenate(records)
        images = np.ascontiguousarray(pool[:, 1:]).reshape(-1, *SHAPE)
        return SamplePool(images, pool[:, 0].astype(np.int64))

    def _records(
        self, path: Path, sheet: CifarSheet, known: dict[str, npt.NDArray[np.uint8]]
    ) -> npt.NDArray[np.uint8]:
        picture, count = decode_picture(path, _content(path)), self.side * self.side
        _, height, width = SHAPE
        if picture.shape != (self.side * height, self.side * width, 3):
            raise DataError(f"{path} is damaged: it has {picture.shape} values")
        tiles = picture.reshape(self.side, height, self.side, width, 3)
        labels = known[sheet.part][sheet.first : sheet.first + count]
        if labels.shape != (count,):
            raise DataError(f"{path.parent / 'labels.npz'} is damaged: labels are missing")
        pixels = tiles.transpose(0, 2, 4, 1, 3).reshape(count, PIXELS)
        records = np.concatenate([labels[:, None], pixels], axis=1)
        if hashlib.sha256(records.tobytes()).hexdigest() != sheet.sha256:
            raise DataError(
                f"{path} or labels.npz beside it is damaged: together they are not CIFAR-10"
            )
        return records


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def _label_arrays(path: Path) -> dict[str, npt.NDArray[np.uint8]]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {part: arrays[part].astype(np.uint8) for part in ("train", "test")}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is damaged: {error}") from error


def _labels_and_pixels(
    path: Path, content: bytes, key: bytes, samples: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """What stands in the list behind `key`, and the one long string of bytes."""
    labels, pixels, inside = bytearray(), b"", False
    awaited = False  # a list of labels follows the key
    for opcode, argument in _opcodes(path, content):
        if opcode == _SHORT_STRING:
            awaited, inside = argument == key, False
        elif opcode == _LIST:
            awaited, inside = False, awaited
        elif inside and opcode == _BYTE:
            labels += argument
        elif opcode not in _BETWEEN_LABELS:
            awaited, inside = False, False
        if opcode == _STRING:
            pixels = argument
    if (len(labels), len(pixels)) != (samples, samples * PIXELS):
        raise DataError(
            f"{path} is damaged: it has {len(labels)} labels and {len(pixels)} bytes of "
            f"pixels; expected {samples} images"
        )
    return np.frombuffer(bytes(labels), np.uint8), np.frombuffer(pixels, np.uint8)


def _opcodes(path: Path, content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Each opcode of a pickle with its argument; only those that the official files have."""
    place = 0
    while place < len(content):
        opcode = content[place : place + 1]
        place += 1
        if opcode == _STOP:
            return
        start = place
        if opcode == _SHORT_STRING:
            length = int.from_bytes(content[place : place + 1], "little")
            start, place = place + 1, place + 1 + length
        elif opcode == _STRING:
            length = int.from_bytes(content[place : place + 4], "little")
            start, place = place + 4, place + 4 + length
        elif opcode == _GLOBAL:  # two names, each to the end of its line; they are passed over
            for _ in range(2):
                place = content.find(b"\n", place) + 1 or len(content)
        elif opcode in _FIXED:
            place += _FIXED[opcode]
        else:
            raise DataError(f"{path} is damaged: byte {place - 1} is no part of its layout")
        yield opcode, content[start:place]
    raise DataError(f"{path} is damaged: it ends too early")
