"""PURE: networks as descriptions, blocks of layers split into `base` and `head`; no torch.

Names, shapes and initial values of the arrays come from here; torch modules of them are in
`networks.py`.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from common.errors import ConfigError

Sample: TypeAlias = Literal["images", "text", "numbers", "other arrays", "several inputs"]
Shape: TypeAlias = tuple[int, ...]

NORMAL = 0  # instead of a fan-in: values from the normal distribution


@dataclass(frozen=True, slots=True)
class Conv:
    """Square convolution, stride 1, with `padding` zeros on every side."""

    inputs: int
    outputs: int
    kernel: int
    padding: int = 0


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
    """All dimensions but the batch into one."""


@dataclass(frozen=True, slots=True)
class Dropout:
    """In training, zero for a random share of the values."""

    share: float


@dataclass(frozen=True, slots=True)
class Embedding:
    """For each of so many symbols a vector of `width` values."""

    symbols: int
    width: int


@dataclass(frozen=True, slots=True)
class LSTM:
    """Stacked recurrent layers; the output of the last one after the last symbol."""

    inputs: int
    hidden: int
    layers: int


Layer: TypeAlias = Conv | Linear | ReLU | MaxPool | Flatten | Dropout | Embedding | LSTM
Block: TypeAlias = tuple[Layer, ...]
Blocks: TypeAlias = tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Options that only some of the models use."""

    hidden: int = 100
    padding: Literal["same", "valid"] = "same"
    pool: Literal["after", "between"] = "after"


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A network: its blocks in order, of which the last `head_depth` are the head."""

    name: str
    blocks: Blocks
    head_depth: int

    def part(self, block: int) -> str:
        """`base` or `head`: where the block with this index belongs."""
        return "head" if block >= len(self.blocks) - self.head_depth else "base"

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every array, in order; blocks are counted through base and head."""
        return {name: shape for name, shape, _ in _arrays(self)}


def build_spec(
    name: str,
    *,
    shape: Shape,
    classes: int,
    head_depth: int,
    options: ModelOptions | None = None,
    sample: Sample | None = None,
) -> ModelSpec:
    """The model of this name for samples of `shape`.

    Images have (channels, height, width), pieces of text (characters,) and as many classes as
    symbols.
    """
    if name not in _BLOCKS:
        near = difflib.get_close_matches(name, _BLOCKS, 1, 0.0)[0]
        raise ConfigError(f"model.name is {name!r}; did you mean {near!r}?")
    _check_kind(name, sample or ("text" if len(shape) == 1 else "images"))
    blocks = _BLOCKS[name](shape, classes, options or ModelOptions())
    deepest = _deepest_head(blocks)
    if not 1 <= head_depth <= deepest:
        expected = "1" if deepest == 1 else f"1 to {deepest}"
        raise ConfigError(f"model.head_depth is {head_depth}; expected {expected} for {name!r}")
    spec = ModelSpec(name, blocks, head_depth)
    if any(0 in array for array in spec.shapes().values()):
        size = "x".join(map(str, shape[1:]))
        raise ConfigError(f"model.name is {name!r}; images of {size} are too small")
    return spec


def initial(spec: ModelSpec, rng: np.random.Generator) -> dict[str, npt.NDArray[np.float32]]:
    """First values of all arrays, from the distributions torch uses.

    They are uniform within 1/sqrt(fan-in), or normal for vectors of symbols. Every operation
    rounds once and separately, so the bits are the same on every processor.
    """
    return {name: _drawn(shape, fan_in, rng) for name, shape, fan_in in _arrays(spec)}


def _drawn(
    shape: tuple[int, ...], fan_in: int, rng: np.random.Generator
) -> npt.NDArray[np.float32]:
    if fan_in == NORMAL:
        return rng.standard_normal(shape).astype(np.float32)
    return (rng.random(shape, dtype=np.float32) * 2 - 1) * np.float32(1 / math.sqrt(fan_in))


def _arrays(spec: ModelSpec) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """Name, shape and fan-in of every array of a model."""
    for i, block in enumerate(spec.blocks):
        for j, layer in enumerate(block):
            for name, shape, fan_in in _layer_arrays(layer):
                yield f"{spec.part(i)}.{i}.{j}.{name}", shape, fan_in


def _layer_arrays(layer: Layer) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """Name, shape and fan-in of every array of a layer, named as torch names them."""
    match layer:
        case Conv(inputs, outputs, kernel):
            fan_in = inputs * kernel * kernel
            yield "weight", (outputs, inputs, kernel, kernel), fan_in
            yield "bias", (outputs,), fan_in
        case Linear(inputs, outputs):
            yield "weight", (outputs, inputs), inputs
            yield "bias", (outputs,), inputs
        case Embedding(symbols, width):
            yield "weight", (symbols, width), NORMAL
        case LSTM(inputs, hidden, layers):
            for number in range(layers):
                width = hidden if number else inputs
                yield f"weight_ih_l{number}", (4 * hidden, width), hidden
                yield f"weight_hh_l{number}", (4 * hidden, hidden), hidden
                yield f"bias_ih_l{number}", (4 * hidden,), hidden
                yield f"bias_hh_l{number}", (4 * hidden,), hidden
        case ReLU() | MaxPool() | Flatten() | Dropout():
            return


def _check_kind(name: str, sample: Sample) -> None:
    """Refuse a model for images where the samples are text, and vice versa."""
    fits = _FITTING.get(sample, _BLOCKS.keys() - _FOR_TEXT)
    if name in fits:
        return
    few = len(fits) < 2 and sample != "text"
    names = [*map(repr, sorted(fits)), *(("a model of your own",) if few else ())]
    raise ConfigError(
        f"model.name is {name!r}; expected {' or '.join(names)}, as the dataset is {sample}"
    )


def _deepest_head(blocks: Blocks) -> int:
    """How many of the last blocks are linear, leaving at least one block for the base."""
    depth = 0
    while depth < len(blocks) - 1 and isinstance(blocks[-1 - depth][0], Linear):
        depth += 1
    return depth


def _dnn(shape: Shape, classes: int, options: ModelOptions) -> Blocks:
    return (
        (Flatten(), Linear(math.prod(shape), options.hidden), ReLU()),
        (Linear(options.hidden, classes),),
    )


def _convnet(shape: Shape, classes: int, _options: ModelOptions) -> Blocks:
    blocks = (_pooled(shape[0], 64), _pooled(64, 64))
    return _classifier(shape, blocks, (384, 192), classes)


def _small(shape: Shape, classes: int, _options: ModelOptions) -> Blocks:
    blocks = (_pooled(shape[0], 8), _pooled(8, 16))
    return _classifier(shape, blocks, (64, 32), classes)


def _mcmahan(shape: Shape, classes: int, options: ModelOptions) -> Blocks:
    padding = 2 if options.padding == "same" else 0
    blocks = (_pooled(shape[0], 32, padding), _pooled(32, 64, padding))
    return _classifier(shape, blocks, (512,), classes)


def _cifar_cnn(shape: Shape, classes: int, options: ModelOptions) -> Blocks:
    padding = 2 if options.padding == "same" else 0
    third = (Conv(64, 64, 3, 1), ReLU())
    blocks = (_pooled(shape[0], 32, padding), _pooled(32, 64, padding), third)
    return _classifier(shape, blocks, (512,), classes)


def _s2cnn(shape: Shape, classes: int, options: ModelOptions) -> Blocks:
    first, second = Conv(shape[0], 32, 3), Conv(32, 64, 3)
    blocks: Blocks
    if options.pool == "after":
        blocks = ((first, ReLU()), (second, MaxPool(2), ReLU(), Dropout(0.25)))
    else:
        blocks = ((first, MaxPool(2), ReLU()), (second, ReLU(), Dropout(0.25)))
    *before, hidden, last = _classifier(shape, blocks, (128,), classes)
    return (*before, (*hidden, Dropout(0.5)), last)


def _char_lstm(_shape: Shape, classes: int, _options: ModelOptions) -> Blocks:
    return ((Embedding(classes, 8),), (LSTM(8, 256, 2),), (Linear(256, classes),))


def _pooled(inputs: int, outputs: int, padding: int = 0) -> Block:
    # pooling first is the same function as ReLU first, and a quarter of the work
    return (Conv(inputs, outputs, 5, padding), MaxPool(2), ReLU())


def _classifier(shape: Shape, blocks: Blocks, widths: tuple[int, ...], classes: int) -> Blocks:
    """Blocks of convolutions, and behind them linear blocks of these widths."""
    *first, last = blocks
    widths = (_values(shape, blocks), *widths)
    linear = ((Linear(inputs, outputs), ReLU()) for inputs, outputs in pairwise(widths))
    return (*first, (*last, Flatten()), *linear, (Linear(widths[-1], classes),))


def _values(shape: Shape, blocks: Blocks) -> int:
    """How many values come out of convolutions; 0 if the images are too small for them."""
    channels, rows, columns = shape
    for layer in chain.from_iterable(blocks):
        match layer:
            case Conv(_, channels, kernel, padding):
                loss = kernel - 1 - 2 * padding
                rows, columns = max(0, rows - loss), max(0, columns - loss)
            case MaxPool(size):
                rows, columns = rows // size, columns // size
            case Linear() | ReLU() | Flatten() | Dropout() | Embedding() | LSTM():
                pass
    return channels * rows * columns


_BLOCKS: dict[str, Callable[[Shape, int, ModelOptions], Blocks]] = {
    "dnn": _dnn,
    "convnet": _convnet,
    "small": _small,
    "mcmahan": _mcmahan,
    "cifar-cnn": _cifar_cnn,
    "s2cnn": _s2cnn,
    "char-lstm": _char_lstm,
}
_FOR_TEXT = {"char-lstm"}
_FITTING: dict[Sample, set[str]] = {"text": _FOR_TEXT, "several inputs": set()}
_FITTING |= {kind: {"dnn"} for kind in ("numbers", "other arrays")}
