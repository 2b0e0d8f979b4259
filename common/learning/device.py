"""Where torch computes on this board: its GPU if it has one, else its CPU."""

from __future__ import annotations

import functools
import os

import torch

CHOICE = "FEDBED_DEVICE"  # "cpu": do not use the GPU


@functools.cache
def device() -> torch.device:
    """The one device of this process."""
    if os.environ.get(CHOICE, "") == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    torch.backends.cudnn.deterministic = True  # so that a repeated training gives the same bits
    return torch.device("cuda")


def use_one_thread() -> None:
    """Let torch compute on one thread: processes share cores far better than threads do."""
    torch.set_num_threads(1)
