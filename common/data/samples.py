"""Samples as they are on disk and in memory: bytes are not yet normalised; no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from common.arrays import Array, Arrays

Images: TypeAlias = npt.NDArray[np.uint8]
Labels: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """What a network takes, an array [n, ...] for each of its inputs, and what it shall answer.

    Inputs are images (uint8 [n, channels, height, width]), numbers (float32) or symbols (other
    integers). Targets are classes (int64 [n]), numbers (float32 [n] or [n, k]) or, where
    several classes may hold at once, zeros and ones (uint8 [n, k]).
    """

    inputs: tuple[Array, ...]
    targets: Array

    def take(self, indices: npt.NDArray[np.int64]) -> Samples:
        """Some of the samples."""
        return Samples(tuple(part[indices] for part in self.inputs), self.targets[indices])

    @property
    def nbytes(self) -> int:
        """Memory of the samples."""
        return sum(part.nbytes for part in self.inputs) + self.targets.nbytes

    def arrays(self, prefix: str) -> dict[str, Array]:
        """As named arrays, for a file."""
        named = {f"{prefix}.inputs.{at}": part for at, part in enumerate(self.inputs)}
        return {**named, f"{prefix}.targets": self.targets}

    def __len__(self) -> int:
        return len(self.targets)


def samples_of(arrays: Arrays, prefix: str) -> Samples | None:
    """The samples that `Samples.arrays` wrote into a file, if they are in it."""
    if f"{prefix}.targets" not in arrays:
        return None
    count = sum(name.startswith(f"{prefix}.inputs.") for name in arrays)
    inputs = tuple(arrays[f"{prefix}.inputs.{at}"] for at in range(count))
    return Samples(inputs, arrays[f"{prefix}.targets"])
