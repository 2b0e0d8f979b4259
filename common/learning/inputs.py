"""Samples as the tensors that networks take."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from common.data.samples import Images, Samples
from common.learning.device import device
from common.learning.net import TorchNet

Inputs: TypeAlias = Callable[[Tensor], Tensor]
"""The inputs of the samples with these indices."""

FEATURE_BATCH = 100
NORMALISED_AT_ONCE = 16 * 1024 * 1024  # values; as float32 they take 64 MB


def normalised(images: Images) -> Tensor:
    """Bytes 0..255 as float32 between -1 and 1, in memory of their own.

    Text [n, characters] holds numbers of symbols, which stay as they are.
    """
    if images.ndim == 2:
        return torch.tensor(images, dtype=torch.int64, device=device())
    values = torch.tensor(images, dtype=torch.float32, device=device())
    return values.div_(255).sub_(0.5).div_(0.5)


def images_of(samples: Samples) -> Inputs:
    """The images of samples: all normalised at once, if memory allows."""
    if samples.images.size <= NORMALISED_AT_ONCE:
        values = normalised(samples.images)
        return lambda index: values.index_select(0, index)
    return lambda index: normalised(samples.images[index.cpu().numpy()])


def features_of(net: TorchNet, samples: Samples) -> Inputs:
    """What the base makes of the samples, for a training in which it does not change."""
    base = net.part("base")
    with torch.no_grad():
        features = torch.cat(
            [
                base(normalised(samples.images[start : start + FEATURE_BATCH]))
                for start in range(0, len(samples), FEATURE_BATCH)
            ]
        )
    return lambda index: features.index_select(0, index)
