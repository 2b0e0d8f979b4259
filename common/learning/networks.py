"""A model description as a torch network, and its arrays in and out."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import Tensor, nn

from common.arrays import Array, Arrays
from common.learning.specs import (
    LSTM,
    Block,
    Conv,
    Dropout,
    Embedding,
    Flatten,
    Layer,
    Linear,
    MaxPool,
    ModelSpec,
    ReLU,
)


class Network(nn.Module):
    """A network whose parameters have the names of its description; all zero until loaded.

    It is in evaluation mode, except while it is trained.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.base = _part(spec, "base")
        self.head = _part(spec, "head")
        # convolutions are faster this way on a CPU; names, shapes and values are the same
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Logits of normalised images, or of the indices of symbols."""
        logits: Tensor = self.head(self.base(x))
        return logits


def load(network: nn.Module, arrays: Arrays) -> None:
    """Copy these arrays into the network; they must be exactly the network's."""
    state = network.state_dict()
    expected = {name: tuple(value.shape) for name, value in state.items()}
    if arrays.keys() != expected.keys():
        missing, unknown = expected.keys() - arrays.keys(), arrays.keys() - expected.keys()
        raise ValueError(
            "arrays do not fit the network: "
            f"missing {', '.join(sorted(missing)) or 'none'}, "
            f"unknown {', '.join(sorted(unknown)) or 'none'}"
        )
    for name, shape in expected.items():
        array = arrays[name]
        kind = str(state[name].dtype).removeprefix("torch.")
        if array.shape != shape or array.dtype != kind:
            raise ValueError(f"{name} is {array.dtype} {array.shape}; expected {kind} {shape}")
    for name, array in arrays.items():
        # torch.tensor copies: from_numpy would alias, and warns about arrays that are read-only
        state[name].copy_(torch.tensor(array))


def extract(network: nn.Module) -> dict[str, Array]:
    """Copies of all arrays of the network."""
    return {name: value.cpu().numpy().copy() for name, value in network.state_dict().items()}


def _part(spec: ModelSpec, part: str) -> nn.Sequential:
    """The blocks of one part; each keeps its index in the whole model as its name."""
    return nn.Sequential(
        OrderedDict(
            (str(i), _block(block))
            for i, block in enumerate(spec.blocks)
            if spec.part(i) == part
        )
    )


def _block(block: Block) -> nn.Sequential:
    return nn.Sequential(*(_layer(layer) for layer in block))


def _layer(layer: Layer) -> nn.Module:
    match layer:
        case Conv(inputs, outputs, kernel, padding):
            return _ZeroConv(inputs, outputs, kernel, padding=padding)
        case Linear(inputs, outputs):
            return _ZeroLinear(inputs, outputs)
        case ReLU():
            return nn.ReLU()
        case MaxPool(size):
            return nn.MaxPool2d(size)
        case Flatten():
            return nn.Flatten()
        case Dropout(share):
            return nn.Dropout(share)
        case Embedding(symbols, width):
            return _ZeroEmbedding(symbols, width)
        case LSTM(inputs, hidden, layers):
            return _ZeroLSTM(inputs, hidden, layers, batch_first=True)


def _zero(layer: nn.Module) -> None:
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)


# torch's own first values come from its global generator, and avoiding them with the "meta"
# device imports 500 modules; so the layers that have parameters start at zero instead.
class _ZeroLinear(nn.Linear):
    def reset_parameters(self) -> None:
        _zero(self)


class _ZeroConv(nn.Conv2d):
    def reset_parameters(self) -> None:
        _zero(self)


class _ZeroEmbedding(nn.Embedding):
    def reset_parameters(self) -> None:
        _zero(self)


class _ZeroLSTM(nn.LSTM):
    def reset_parameters(self) -> None:
        _zero(self)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]  # as a layer among others
        """The outputs at the last step alone."""
        outputs: Tensor = super().forward(x)[0]
        return outputs[:, -1]
