"""FedBABU (Oh et al., 2022): the head stays random, only the base learns; clients fine-tune."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from common.algorithms import decoupled
from common.algorithms.base import (
    MODEL,
    Algorithm,
    Client,
    Predictor,
    Server,
    Trained,
    Weighting,
    model_of,
    update_of,
)
from common.arrays import Arrays, parts
from common.wire.messages import Stage


def fedbabu(
    *,
    tune_epochs: Annotated[
        int, Meta(ge=1, description="Epochs of fine-tuning before a personal model is tested.")
    ] = 10,
    tune: Annotated[
        Literal["head", "full"], Meta(description="What fine-tuning changes.")
    ] = "head",
    tune_every: Annotated[
        int,
        Meta(
            ge=1, description="Personal models are tested in every n-th round, and at the end."
        ),
    ] = 10,
    weighting: Weighting = "samples",
) -> Algorithm:
    """The base is trained under one fixed random head; a client's own model is fine-tuned."""
    only = ("head",) if tune == "head" else MODEL

    def tuned(client: Client, model: Arrays) -> Predictor:
        """A copy that is tested and then thrown away."""
        found = client.train(model, only=only, epochs=tune_epochs, purpose="fine-tuning")
        return client.predictor(found.arrays)

    def client_update(client: Client, _state: Arrays, download: Arrays) -> Trained:
        model = client.train(model_of(download), only=("base",))
        whole = update_of(client, model, weighting, personal=tuned(client, model.arrays))
        base = parts(model.arrays, ["base"])
        return Trained({}, base, whole.weights, model.loss, model.steps, whole.personal)

    def expects(_server: Server, download: Arrays) -> Arrays:
        return parts(download, ["base"])

    def stages(client: Client, _state: Arrays, download: Arrays) -> Mapping[Stage, Predictor]:
        shared = client.predictor(download)
        done = client.round - 1
        if done % tune_every and done != client.rounds:
            return {"G": shared}
        return {"G": shared, "L1": tuned(client, download)}

    return Algorithm(
        name="fedbabu",
        splits=True,
        client_update=client_update,
        expects=expects,
        server_update=decoupled.new_state,
        stages=stages,
    )
