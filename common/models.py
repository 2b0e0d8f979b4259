"""Networks as plain descriptions: blocks of layers, split into `base` and `head`; no torch.

Names, shapes and initial values of the arrays come from here; `networks.py` makes them compute.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from common.errors import ConfigError

Shape: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Conv:
    """Square convolution, stride 1, no padding."""

    inputs: int
    outputs: int
    kernel: int


@dataclass(frozen=True, slots=True)
class Linear:
    """Fully connected layer."""

    inputs: int
    outputs: int


@dataclass(frozen=True, slots=True)
class ReLU:
    """Rectifier."""


@dataclass(frozen=True, slots=True)
class MaxPool:
    """Maximum over `size` times `size` squares that do not overlap."""

    size: int


@dataclass(frozen=True, slots=True)
class Flatten:
    """Everything but the batch into one dimension."""


Layer: TypeAlias = Conv | Linear | ReLU | MaxPool | Flatten
Block: TypeAlias = tuple[Layer, ...]


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A network: its blocks in order, of which the last `head_depth` are the head."""

    name: str
    blocks: tuple[Block, ...]
    head_depth: int

    def part(self, block: int) -> str:
        """`base` or `head`: where the block with this index belongs."""
        return "head" if block >= len(self.blocks) - self.head_depth else "base"

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every array, in order; blocks are counted through base and head."""
        return {name: shape for name, shape, _ in _arrays(self)}


def build_spec(
    name: str, *, shape: Shape, classes: int, head_depth: int, hidden: int = 100
) -> ModelSpec:
    """The model of this name for images of `shape` (channels, height, width)."""
    if name not in _BLOCKS:
        near = difflib.get_close_matches(name, _BLOCKS, 1, 0.0)[0]
        raise ConfigError(f"model.name is {name!r}; did you mean {near!r}?")
    blocks = _BLOCKS[name](shape, classes, hidden)
    deepest = _deepest_head(blocks)
    if not 1 <= head_depth <= deepest:
        expected = "1" if deepest == 1 else f"1 to {deepest}"
        raise ConfigError(f"model.head_depth is {head_depth}; expected {expected} for {name!r}")
    return ModelSpec(name, blocks, head_depth)


def initial(spec: ModelSpec, rng: np.random.Generator) -> dict[str, npt.NDArray[np.float32]]:
    """First values of all arrays: uniform within 1/sqrt(fan-in), the ranges torch uses.

    Every operation rounds once and on its own, so the bits are the same on every processor.
    """
    return {
        name: (rng.random(shape, dtype=np.float32) * 2 - 1) * np.float32(1 / math.sqrt(fan_in))
        for name, shape, fan_in in _arrays(spec)
    }


def _arrays(spec: ModelSpec) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """Name, shape and fan-in of every array of a model."""
    for i, block in enumerate(spec.blocks):
        for j, layer in enumerate(block):
            weight = _weight_shape(layer)
            if weight is None:
                continue
            prefix, fan_in = f"{spec.part(i)}.{i}.{j}", math.prod(weight[1:])
            yield f"{prefix}.weight", weight, fan_in
            yield f"{prefix}.bias", weight[:1], fan_in


def _weight_shape(layer: Layer) -> tuple[int, ...] | None:
    match layer:
        case Conv(inputs, outputs, kernel):
            return (outputs, inputs, kernel, kernel)
        case Linear(inputs, outputs):
            return (outputs, inputs)
        case ReLU() | MaxPool() | Flatten():
            return None


def _deepest_head(blocks: tuple[Block, ...]) -> int:
    """How many of the last blocks are linear, leaving at least one block for the base."""
    depth = 0
    while depth < len(blocks) - 1 and isinstance(blocks[-1 - depth][0], Linear):
        depth += 1
    return depth


def _dnn(shape: Shape, classes: int, hidden: int) -> tuple[Block, ...]:
    return (
        (Flatten(), Linear(math.prod(shape), hidden), ReLU()),
        (Linear(hidden, classes),),
    )


def _convnet(shape: Shape, classes: int, _hidden: int) -> tuple[Block, ...]:
    channels, height, width = shape
    rows, columns = (((side - 4) // 2 - 4) // 2 for side in (height, width))
    if min(rows, columns) < 1:
        raise ConfigError(f"model.name is 'convnet'; images of {height}x{width} are too small")
    return (
        # pooling first is the same function as ReLU first, and has a quarter of its work
        (Conv(channels, 64, 5), MaxPool(2), ReLU()),
        (Conv(64, 64, 5), MaxPool(2), ReLU(), Flatten()),
        (Linear(64 * rows * columns, 384), ReLU()),
        (Linear(384, 192), ReLU()),
        (Linear(192, classes),),
    )


_BLOCKS: dict[str, Callable[[Shape, int, int], tuple[Block, ...]]] = {
    "dnn": _dnn,
    "convnet": _convnet,
}
