"""An algorithm, a loss and a metric of one's own, all in one file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import Meta

from common.algorithms.base import Algorithm, Server, Update
from common.algorithms.fedavg import fedavg
from common.arrays import Arrays

if TYPE_CHECKING:
    from torch import Tensor


def cautious(
    *,
    share: Annotated[
        float, Meta(gt=0, le=1, description="How far the server goes towards the mean.")
    ] = 0.5,
) -> Algorithm:
    """FedAvg, but the server goes only a part of the way to the clients' mean."""

    def server_update(server: Server, state: Arrays, updates: Sequence[Update]) -> Arrays:
        mean = server.mean(updates)
        return {
            name: array
            if name in server.buffers
            else (state[name] + share * (array - state[name])).astype(np.float32)
            for name, array in mean.items()
        }

    return replace(fedavg(), name="cautious", server_update=server_update)


def focal(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy that cares less for samples the model is already sure of."""
    from torch.nn import functional  # only training processes have torch

    each = functional.cross_entropy(outputs, targets, reduction="none")
    sure = (-each).exp()
    return ((1 - sure) ** 2 * each).mean()


def sureness(outputs: Tensor, targets: Tensor) -> tuple[Tensor, int]:
    """The mean probability of the right class, as two sums: what is added up, over how many."""
    right = outputs.softmax(dim=1).gather(1, targets[:, None])
    return right.sum(), len(targets)
