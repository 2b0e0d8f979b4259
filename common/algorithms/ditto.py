"""Ditto (Li et al., 2021): each client has its own model, pulled towards the global one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from common.algorithms.base import (
    Algorithm,
    Client,
    Predictor,
    Trained,
    Weighting,
    model_of,
    update_of,
)
from common.arrays import Arrays
from common.wire.messages import Stage

if TYPE_CHECKING:
    from torch import Tensor


def ditto(
    *,
    lam: Annotated[
        float,
        Meta(
            ge=0, description="How strongly a client's own model is pulled to the global one."
        ),
    ] = 0.1,
    personal_epochs: Annotated[
        int, Meta(ge=1, description="Epochs for the client's own model.")
    ] = 5,
    momentum: Annotated[
        float, Meta(ge=0, lt=1, description="Momentum when SGD trains the client's own model.")
    ] = 0.0,
    weighting: Weighting = "samples",
) -> Algorithm:
    """FedAvg, and every client also trains its own model, which stays near the global one."""

    def client_init(_client: Client, download: Arrays) -> Arrays:
        return model_of(download)

    def client_update(client: Client, state: Arrays, download: Arrays) -> Trained:
        anchor = client.tensors(download)

        def pull(parameters: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
            return {name: lam * (value - anchor[name]) for name, value in parameters.items()}

        settings = msgspec.structs.replace(client.training, optimizer="sgd", momentum=momentum)
        own = client.train(
            state, extra=pull, epochs=personal_epochs, settings=settings, purpose="personal"
        )
        shared = client.train(download)
        personal = client.predictor(own.arrays)
        return update_of(client, shared, weighting, state=own.arrays, personal=personal)

    def stages(client: Client, state: Arrays, download: Arrays) -> Mapping[Stage, Predictor]:
        return {"G": client.predictor(download), "L1": client.predictor(state)}

    return Algorithm(
        name="ditto", client_init=client_init, client_update=client_update, stages=stages
    )
