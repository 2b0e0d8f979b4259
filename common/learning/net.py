"""The arrays of an algorithm as one torch module: the model's network, copies of its base or
head, and tensors that belong to no network."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from typing import Literal, cast

import torch
from torch import Tensor, nn

from common.algorithms.client import Batch
from common.arrays import Arrays, part_of
from common.learning.device import device
from common.learning.networks import Network

_CHANGES_IN_TRAINING = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._NormBase)


class TorchNet(nn.Module):
    """One module whose arrays have the names that the algorithm gave them.

    `base` and `head` are the network's own: what is loaded here is loaded there. All copies and
    tensors have no values until loaded.
    """

    def __init__(
        self,
        network: nn.Module,
        arrays: Arrays | None = None,
        copies: Mapping[str, Literal["base", "head"]] | None = None,
    ) -> None:
        super().__init__()
        self._network = (
            network,
        )  # in a tuple: a module here would give its arrays a second name
        arrays, copies = arrays or {}, copies or {}
        wanted = {part_of(name) for name in arrays}
        self.add_module("base", network.get_submodule("base"))
        self.add_module("head", network.get_submodule("head"))
        for name, part in copies.items():
            if name in wanted:
                self.add_module(name, copy.deepcopy(network.get_submodule(part)))
        for name, array in arrays.items():
            if part_of(name) not in {"base", "head", *copies}:
                _put(self, name, nn.Parameter(torch.zeros(array.shape, device=device())))
        self.has_norm = any(
            isinstance(m, nn.modules.batchnorm._NormBase) for m in self.modules()
        )
        self.eval()

    def forward(self, inputs: Batch) -> Tensor:
        """Logits of the model."""
        several = inputs if isinstance(inputs, tuple) else (inputs,)
        logits: Tensor = self._network[0](*several)
        return logits

    def part(self, name: str) -> Callable[[Batch], Tensor]:
        """A part as a function."""
        return cast("Callable[[Batch], Tensor]", self.get_submodule(name))

    def tensor(self, name: str) -> Tensor:
        """One array by its name."""
        home, _, last = name.rpartition(".")
        return cast("Tensor", getattr(self.get_submodule(home), last))

    def train_only(self, only: Collection[str]) -> None:
        """Training mode, in which running statistics of all other parts stay as they are."""
        self.train()
        for name, part in self.named_children():
            for module in part.modules():
                if name not in only and isinstance(module, nn.modules.batchnorm._NormBase):
                    module.eval()

    @property
    def has_fixed_features(self) -> bool:
        """Whether the base gives the same features in training as in tests, for its head."""
        base = self._network[0].get_submodule("base")
        changes = any(isinstance(module, _CHANGES_IN_TRAINING) for module in base.modules())
        return isinstance(self._network[0], Network) and not changes


def _put(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
    home, dot, last = name.rpartition(".")
    for level in home.split(".") if dot else []:
        if level not in module._modules:
            module.add_module(level, nn.Module())
        module = module.get_submodule(level)
    module.register_parameter(last, parameter)
