"""Labelled samples as they are on disk and in memory: bytes, not yet normalised; no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Images: TypeAlias = npt.NDArray[np.uint8]
Labels: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Images [n, channels, height, width], or pieces of text [n, characters] in which every
    byte is the number of a symbol; and the class of each.
    """

    images: Images
    labels: Labels

    def take(self, indices: npt.NDArray[np.int64]) -> Samples:
        """Some of the samples."""
        return Samples(self.images[indices], self.labels[indices])

    def __len__(self) -> int:
        return len(self.labels)
