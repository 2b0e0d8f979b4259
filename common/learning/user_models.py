"""Users' own networks: made by their function, and checked to fit.

Only for these does the server need torch: to learn their names, shapes and first values.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from common.arrays import part_of
from common.errors import ConfigError
from common.learning.specs import Shape
from common.learning.torch_seed import torch_chance_from


def make_user_model(
    name: str,
    function: Callable[..., object],
    *,
    shape: Shape,
    classes: int,
    rng: np.random.Generator,
) -> nn.Module:
    """What `function(shape, classes)` makes; its first values depend on `rng` alone."""
    with torch_chance_from(rng):
        model = function(shape, classes)
    if not isinstance(model, nn.Module):
        kind = type(model).__name__
        raise ConfigError(f"model.name is {name!r}, which makes {kind}; expected nn.Module")
    state = model.state_dict()
    parts = {part_of(array) for array in state}
    if parts != {"base", "head"}:
        found = ", ".join(sorted(parts)) or "none"
        raise ConfigError(
            f"model.name is {name!r}, which has arrays in {found}; expected base and head"
        )
    for array, value in state.items():
        if value.dtype not in (torch.float32, torch.int64):
            raise ConfigError(
                f"model.name is {name!r}, in which {array} is {value.dtype}; "
                "expected torch.float32 (or torch.int64 for counters)"
            )
    return model.eval()
