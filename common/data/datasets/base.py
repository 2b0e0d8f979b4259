"""What a dataset is: what is known in advance, its samples, and the layout of its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from common.arrays import Array
from common.config.schema import InputSchema, Kind
from common.data.samples import Images, Labels

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """What is known of a dataset without reading it.

    Images have a shape of (channels, height, width), windows of a text one of (characters,).
    """

    name: str
    shape: tuple[int, ...]
    classes: int
    size: int
    official: int  # how many of the first samples are the official training part
    natural: bool = False  # whether its samples come from natural clients
    kind: Kind = "classification"
    inputs: tuple[InputSchema, ...] = ()  # of users' own datasets

    @property
    def shapes(self) -> Shape | tuple[Shape, ...]:
        """What a user's model is made for: a shape, or one for each of several inputs."""
        if len(self.inputs) < 2:
            return self.shape
        return tuple(one.shape for one in self.inputs)


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Pieces of one text, all of one width; only those asked for are ever made."""

    text: Images
    starts: npt.NDArray[np.int64]
    width: int

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, chosen: npt.NDArray[np.int64] | slice) -> Images:
        return sliding_window_view(self.text, self.width)[self.starts[chosen]]


@dataclass(frozen=True, slots=True, eq=False)
class SamplePool:
    """All samples of a dataset, the official training part first.

    `natural` says where the samples of each natural client begin, and ends with their number.
    """

    images: Images | Windows
    labels: Labels
    natural: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """All samples of a dataset, training and test parts in one pool."""

    name: str
    inputs: tuple[Array | Windows, ...]
    targets: Array
    classes: int
    official: int  # how many of the first samples are the official training part
    natural: npt.NDArray[np.int64] | None = None  # as in `SamplePool`
    kind: Kind = "classification"


class Layout(Protocol):
    """One way to lay out the files of a dataset in a folder."""

    @property
    def files(self) -> tuple[str, ...]:
        """The names of all files; each may also be there compressed, as `.gz`."""
        ...

    def read(self, folder: Path) -> SamplePool:
        """All samples, or a DataError that names the file that is missing or damaged."""
        ...
