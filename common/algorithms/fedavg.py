"""FedAvg (McMahan et al., 2017): clients train the global model, the server averages them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta

from common.algorithms.base import (
    Algorithm,
    Client,
    Predictor,
    Trained,
    Update,
    nothing,
)
from common.arrays import Arrays, weighted_mean
from common.messages import Stage


def fedavg(
    *,
    weighting: Annotated[
        Literal["samples", "uniform"],
        Meta(description="Whether a client counts by its number of samples, or all the same."),
    ] = "samples",
) -> Algorithm:
    """Average of the models that the selected clients trained from the global one."""

    def client_update(client: Client, state: Arrays, download: Arrays) -> Trained:
        model = client.train(download)
        weight = float(client.samples) if weighting == "samples" else 1.0
        return Trained(
            state=state,
            arrays=model.arrays,
            weights={"base": weight, "head": weight},
            loss=model.loss,
            steps=model.steps,
            personal=client.predictor(model.arrays),
        )

    return Algorithm(
        name="fedavg",
        server_init=same,
        broadcast=same,
        global_model=same,
        client_init=nothing,
        client_update=client_update,
        server_update=average,
        stages=download_everywhere,
    )


def same(arrays: Arrays) -> Arrays:
    """The server's state is the global model, and that is what it sends."""
    return arrays


def average(_state: Arrays, updates: Sequence[Update]) -> Arrays:
    """The weighted mean of the updates."""
    return weighted_mean((update.arrays, update.weights) for update in updates)


def download_everywhere(
    client: Client, _state: Arrays, download: Arrays
) -> Mapping[Stage, Predictor]:
    """Before its training a client's own model is the global one."""
    model = client.predictor(download)
    return {"G": model, "L1": model}
