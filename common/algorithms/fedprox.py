"""FedProx (Li et al., 2020): FedAvg whose clients are pulled towards the global model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from common.algorithms.base import (
    Algorithm,
    Client,
    Trained,
    Weighting,
    model_of,
    update_of,
)
from common.arrays import Arrays

if TYPE_CHECKING:
    from torch import Tensor


def fedprox(
    *,
    mu: Annotated[
        float, Meta(ge=0, description="How strongly a client is pulled to the global model.")
    ] = 0.001,
    weighting: Weighting = "samples",
) -> Algorithm:
    """FedAvg with a penalty of mu/2 times the squared distance from the global model."""

    def client_update(client: Client, _state: Arrays, download: Arrays) -> Trained:
        anchor = client.tensors(model_of(download))

        def pull(parameters: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
            return {name: mu * (value - anchor[name]) for name, value in parameters.items()}

        return update_of(client, client.train(download, extra=pull), weighting)

    return Algorithm(name="fedprox", client_update=client_update)
