"""CLT, local training only: clients never learn from each other; a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta

from common.algorithms.base import (
    MODEL,
    Algorithm,
    Client,
    Predictor,
    Server,
    Trained,
    Update,
    model_of,
)
from common.arrays import Arrays, from_under, under
from common.wire.messages import Stage


def clt(
    *,
    report_mean: Annotated[
        bool,
        Meta(description="Whether clients send their models, so that the mean can be tested."),
    ] = False,
) -> Algorithm:
    """Every client trains a model of its own from the common start; nothing is shared."""

    def server_init(_server: Server, model: Arrays) -> Arrays:
        return {**model, **under("mean", model)} if report_mean else model

    def client_init(_client: Client, download: Arrays) -> Arrays:
        return model_of(download)

    def client_update(client: Client, state: Arrays, _download: Arrays) -> Trained:
        model = client.train(state)
        return Trained(
            state=model.arrays,
            arrays=model.arrays if report_mean else {},
            weights=dict.fromkeys(MODEL, 1.0),
            loss=model.loss,
            steps=model.steps,
            personal=client.predictor(model.arrays),
        )

    def expects(_server: Server, download: Arrays) -> Arrays:
        return model_of(download) if report_mean else {}

    def server_update(server: Server, state: Arrays, updates: Sequence[Update]) -> Arrays:
        return {**state, **under("mean", server.mean(updates))} if report_mean else state

    def global_model(state: Arrays) -> Arrays:
        return from_under("mean", state) if report_mean else model_of(state)

    def stages(client: Client, state: Arrays, download: Arrays) -> Mapping[Stage, Predictor]:
        own = client.predictor(state)
        if not report_mean:
            return {"L1": own}
        return {"G": client.predictor(from_under("mean", download)), "L1": own}

    return Algorithm(
        name="clt",
        server_init=server_init,
        client_init=client_init,
        client_update=client_update,
        expects=expects,
        server_update=server_update,
        global_model=global_model,
        stages=stages,
    )
