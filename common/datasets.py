"""Datasets from disk, found or downloaded once; every file is checked against its known digest.

Who gets which sample is decided in `partition.py`.
"""

from __future__ import annotations

import contextlib
import difflib
import gzip
import hashlib
import math
import os
import socket
import sys
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from common.errors import ConfigError, DataError
from common.samples import Images, Labels

DEBIAN = Path("/usr/share/datasets/fashion-mnist")
DOWNLOAD_SECONDS = 30.0  # without any byte


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """What is known of a dataset without looking at the disk.

    The first `official` samples are the official training part, the others its test set.
    """

    name: str
    shape: tuple[int, int, int]
    classes: int
    size: int
    official: int


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """All samples of a dataset: first the `official` training samples, then the test set."""

    name: str
    images: Images
    labels: Labels
    classes: int
    official: int


@dataclass(frozen=True, slots=True)
class _IdxFile:
    """A file of bytes in the idx format, and the SHA-256 of its uncompressed content."""

    name: str
    shape: tuple[int, ...]
    sha256: str

    def header(self) -> bytes:
        """How the content begins: type byte 8 (unsigned), number of dimensions, dimensions."""
        return np.array([0x800 + len(self.shape), *self.shape], ">u4").tobytes()


_TEST = (
    _IdxFile(
        "t10k-images-idx3-ubyte",
        (10_000, 28, 28),
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    ),
    _IdxFile(
        "t10k-labels-idx1-ubyte",
        (10_000,),
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
)
_TRAIN = (
    _IdxFile(
        "train-images-idx3-ubyte",
        (60_000, 28, 28),
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    ),
    _IdxFile(
        "train-labels-idx1-ubyte",
        (60_000,),
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    ),
)
_PARTS = {"fmnist-mini": (_TEST,), "fashion-mnist": (_TRAIN, _TEST)}
_OFFICIAL = {"fmnist-mini": 8_000, "fashion-mnist": 60_000}  # of the first, by our decree


def dataset_info(name: str) -> DatasetInfo:
    """Shape, classes and size of a dataset."""
    if name not in _PARTS:
        near = difflib.get_close_matches(name, _PARTS, 1, 0.0)[0]
        raise ConfigError(f"data.dataset is {name!r}; did you mean {near!r}?")
    size = sum(labels.shape[0] for _, labels in _PARTS[name])
    return DatasetInfo(name, (1, 28, 28), 10, size, _OFFICIAL[name])


def require_dataset(name: str) -> Path:
    """The folder that holds the dataset; downloads it if it is nowhere on this machine."""
    dataset_info(name)
    places = list(_places(name))
    for place in places:
        if all(_path(place, file) for part in _PARTS[name] for file in part):
            return place
    try:
        return _download(Path.home() / ".cache" / "fedbed")
    # torchvision reports a failed download as RuntimeError or as whatever urllib raised
    except (ImportError, RuntimeError, OSError) as error:
        looked, reason = ", ".join(map(str, places)), " ".join(str(error).split())
        raise DataError(
            f"{name} is not in {looked}, and cannot be downloaded ({reason}); on Debian: apt "
            "install dataset-fashion-mnist; or set FEDBED_DATA to the folder that has its files"
        ) from error


def load_dataset(name: str) -> Dataset:
    """All samples of the dataset, in a fixed order."""
    info, folder = dataset_info(name), require_dataset(name)
    parts = [tuple(_read(folder, file) for file in part) for part in _PARTS[name]]
    images = np.concatenate([images for images, _ in parts]).reshape(-1, *info.shape)
    labels = np.concatenate([labels for _, labels in parts]).astype(np.int64)
    return Dataset(name, images, labels, info.classes, info.official)


def _places(name: str) -> Iterator[Path]:
    if name == "fmnist-mini":
        yield Path(__file__).parent / "fmnist_mini"
        return
    if given := os.environ.get("FEDBED_DATA"):
        yield Path(given) / "fashion-mnist"
        yield Path(given) / "FashionMNIST" / "raw"
        yield Path(given)
    yield Path.home() / ".cache" / "fedbed" / "FashionMNIST" / "raw"
    yield Path("data") / "FashionMNIST" / "raw"
    yield DEBIAN


def _path(folder: Path, file: _IdxFile) -> Path | None:
    """Where the file is in this folder, plain or compressed."""
    candidates = (folder / file.name, folder / f"{file.name}.gz")
    return next((path for path in candidates if path.is_file()), None)


def _read(folder: Path, file: _IdxFile) -> npt.NDArray[np.uint8]:
    path = _path(folder, file)
    if path is None:
        raise DataError(f"{folder / file.name} has disappeared")
    header, length = file.header(), math.prod(file.shape)
    content = _content(path, len(header) + length)
    if content[: len(header)] != header:
        raise DataError(f"{path} is damaged: it does not begin as idx bytes of {file.shape}")
    if len(content) != len(header) + length:
        raise DataError(f"{path} is damaged: its length is not {len(header) + length}")
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise DataError(f"{path} is damaged: its content is not that of Fashion-MNIST")
    return np.frombuffer(content, np.uint8, length, len(header)).reshape(file.shape)


def _content(path: Path, expected: int) -> bytes:
    """The uncompressed content; of a file that is too long only one byte more than expected."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            return stream.read(expected + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def _download(root: Path) -> Path:
    """Fetch Fashion-MNIST through torchvision into `root`, in torchvision's own layout."""
    from common.torchvision_import import import_datasets  # slow, and not on every board

    datasets = import_datasets()
    folder = root / "FashionMNIST" / "raw"
    folder.mkdir(parents=True, exist_ok=True)
    # downloaded beside and moved when complete: what is interrupted leaves no half file behind
    with tempfile.TemporaryDirectory(dir=root) as beside, _socket_timeout(DOWNLOAD_SECONDS):
        with contextlib.redirect_stdout(sys.stderr):
            datasets.FashionMNIST(beside, download=True)
        for path in Path(beside, "FashionMNIST", "raw").iterdir():
            path.replace(folder / path.name)
    return folder


@contextlib.contextmanager
def _socket_timeout(seconds: float) -> Iterator[None]:
    """A bound on waiting for code that sets none, as torchvision's download."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
