"""Torch's global generator, made to depend on a generator of ours."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def torch_chance_from(rng: np.random.Generator) -> Iterator[None]:
    """Within, what torch draws (dropout, first values) depends on `rng` alone.

    Nothing is drawn from `rng` itself: the shuffles are the same with dropout and without.
    """
    before = torch.get_rng_state()
    torch.default_generator.manual_seed(int(copy.deepcopy(rng).integers(2**63)))
    try:
        yield
    finally:
        torch.set_rng_state(before)
