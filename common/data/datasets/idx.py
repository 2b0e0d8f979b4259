"""MNIST and its relatives: bytes in the idx format, plain or compressed."""

from __future__ import annotations

import gzip
import hashlib
import math
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from common.data.datasets.base import SamplePool
from common.data.datasets.files import check_digest, read_at_most, require_file
from common.errors import DataError


@dataclass(frozen=True, slots=True)
class IdxFile:
    """A file of bytes in the idx format, and the SHA-256 of its uncompressed content.

    Where no digest was ever published it is empty, and only header and length are checked.
    """

    name: str
    shape: tuple[int, ...]
    sha256: str = ""

    def header(self) -> bytes:
        """How the content begins: type byte 8 (unsigned), number of dimensions, dimensions."""
        return np.array([0x800 + len(self.shape), *self.shape], ">u4").tobytes()

    def length(self) -> int:
        """How long the uncompressed content is."""
        return len(self.header()) + math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class IdxFiles:
    """Files of images, each followed by the file of its labels."""

    title: str
    parts: tuple[tuple[IdxFile, IdxFile], ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The names of all files."""
        return tuple(file.name for part in self.parts for file in part)

    def read(self, folder: Path) -> SamplePool:
        """All samples."""
        contents = {}
        for file in (file for part in self.parts for file in part):
            path = require_file(folder, file.name)
            content = read_at_most(path, file.length() + 1)
            contents[file.name] = _values(path, content, file, self.title)
        return _pool([(contents[a.name], contents[b.name]) for a, b in self.parts])


@dataclass(frozen=True, slots=True)
class EmnistFiles:
    """EMNIST's files, which hold every image with rows and columns exchanged.

    NIST published a digest of the whole archive only. Of single files we check that all
    classes are equally frequent, which is what "balanced" means.
    """

    parts: tuple[tuple[IdxFile, IdxFile], ...]
    classes: int

    @property
    def files(self) -> tuple[str, ...]:
        """The names of all files."""
        return tuple(file.name for part in self.parts for file in part)

    def read(self, folder: Path) -> SamplePool:
        """All samples, upright."""
        pool = IdxFiles("EMNIST", self.parts).read(folder)
        first = 0
        for _, file in self.parts:
            labels = pool.labels[first : first + file.shape[0]]
            counts = np.bincount(labels, minlength=self.classes)
            if len(counts) != self.classes or counts.min() != counts.max():
                path = require_file(folder, file.name)
                raise DataError(
                    f"{path} is damaged: its {self.classes} classes are not equally frequent"
                )
            first += file.shape[0]
        return _upright(pool)


@dataclass(frozen=True, slots=True)
class EmnistZip:
    """EMNIST as NIST publishes it: one archive of all its splits."""

    parts: tuple[tuple[IdxFile, IdxFile], ...]
    md5: str
    name: str = "gzip.zip"

    @property
    def files(self) -> tuple[str, ...]:
        """The archive."""
        return (self.name,)

    def read(self, folder: Path) -> SamplePool:
        """All samples, upright."""
        path = folder / self.name
        check_digest(path, "md5", self.md5)
        with zipfile.ZipFile(path) as archive:
            parts = [
                (_from_zip(path, archive, images), _from_zip(path, archive, labels))
                for images, labels in self.parts
            ]
        return _upright(_pool(parts))


def _from_zip(path: Path, archive: zipfile.ZipFile, file: IdxFile) -> npt.NDArray[np.uint8]:
    try:
        with archive.open(f"gzip/{file.name}.gz") as packed, gzip.open(packed) as stream:
            content = stream.read(file.length() + 1)
    except (KeyError, OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    return _values(path, content, file, "EMNIST")


def _values(path: Path, content: bytes, file: IdxFile, title: str) -> npt.NDArray[np.uint8]:
    header = file.header()
    if content[: len(header)] != header:
        raise DataError(f"{path} is damaged: it does not begin as idx bytes of {file.shape}")
    if len(content) != file.length():
        raise DataError(f"{path} is damaged: its length is not {file.length()}")
    if file.sha256 and hashlib.sha256(content).hexdigest() != file.sha256:
        raise DataError(f"{path} is damaged: its content is not that of {title}")
    values = np.frombuffer(content, np.uint8, math.prod(file.shape), len(header))
    return values.reshape(file.shape)


def _pool(parts: list[tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]]) -> SamplePool:
    images = np.concatenate([images for images, _ in parts])[:, None]
    labels = np.concatenate([labels for _, labels in parts]).astype(np.int64)
    return SamplePool(images, labels)


def _upright(pool: SamplePool) -> SamplePool:
    assert isinstance(pool.images, np.ndarray)
    return SamplePool(np.ascontiguousarray(pool.images.swapaxes(2, 3)), pool.labels)
