"""Samples as the tensors that networks take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from common.algorithms.client import Batch
from common.arrays import Array
from common.data.samples import Samples
from common.learning.device import device
from common.learning.net import TorchNet

Inputs: TypeAlias = Callable[[Tensor], Batch]
"""The inputs of the samples with these indices."""

FEATURE_BATCH = 100
NORMALISED_AT_ONCE = 16 * 1024 * 1024  # values; as float32 they take 64 MB
IMAGE = 3  # dimensions of a batch of images, or more: bytes in fewer are symbols


def normalised(values: Array) -> Tensor:
    """One input as the network gets it, in memory of its own.

    Bytes 0..255 of images become float32 between -1 and 1, numbers float32. Other integers,
    and bytes [n, characters], are numbers of symbols, which stay as they are.
    """
    if values.dtype == np.uint8 and values.ndim >= IMAGE:
        pixels = torch.tensor(values, dtype=torch.float32, device=device())
        return pixels.div_(255).sub_(0.5).div_(0.5)
    kind = torch.float32 if np.issubdtype(values.dtype, np.floating) else torch.int64
    return torch.tensor(values, dtype=kind, device=device())


def batch_of(samples: Samples, part: slice) -> Batch:
    """The inputs of some of the samples: a tensor, or a tuple if there are several inputs."""
    return _batch([normalised(values[part]) for values in samples.inputs])


def inputs_of(samples: Samples) -> Inputs:
    """The inputs of samples: all normalised at once, if memory allows."""
    if sum(values.size for values in samples.inputs) <= NORMALISED_AT_ONCE:
        tensors = [normalised(values) for values in samples.inputs]
        return lambda index: _batch([values.index_select(0, index) for values in tensors])
    return lambda index: _batch(
        [normalised(values[index.cpu().numpy()]) for values in samples.inputs]
    )


def features_of(net: TorchNet, samples: Samples) -> Callable[[Tensor], Tensor]:
    """What the base makes of the samples, for a training in which it does not change."""
    base = net.part("base")
    with torch.no_grad():
        features = torch.cat(
            [
                base(batch_of(samples, slice(start, start + FEATURE_BATCH)))
                for start in range(0, len(samples), FEATURE_BATCH)
            ]
        )
    return lambda index: features.index_select(0, index)


def _batch(tensors: Sequence[Tensor]) -> Batch:
    return tensors[0] if len(tensors) == 1 else tuple(tensors)
