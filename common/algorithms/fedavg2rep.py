"""FedAvg2Rep: some rounds of FedAvg, then FedRep from the base that has learnt so far.

Which phase it is follows from the number of the round, so it is not stored. With
`variant = "heads"` clients start the second phase with the head that FedAvg ended with; the
server keeps that head, under `initial`, for those who are selected later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta

from common.algorithms import decoupled
from common.algorithms.base import (
    Algorithm,
    Client,
    Predictor,
    Server,
    Trained,
    Update,
    Weighting,
    model_of,
    update_of,
)
from common.algorithms.fedrep import (
    BaseEpochs,
    HeadEpochs,
    Steps,
    train_by_steps,
    train_by_turns,
)
from common.arrays import Arrays, from_under, parts, under
from common.wire.messages import Stage


def fedavg2rep(
    *,
    first_rounds: Annotated[
        int, Meta(ge=0, description="Rounds of FedAvg before the change.")
    ] = 500,
    variant: Annotated[
        Literal["steps", "heads"], Meta(description="Which FedRep follows.")
    ] = "steps",
    steps: Steps = 4,
    head_epochs: HeadEpochs = 5,
    base_epochs: BaseEpochs = 1,
    weighting: Weighting = "uniform",
) -> Algorithm:
    """FedAvg teaches the base, then FedRep fits heads to it."""

    def second(client: Client) -> bool:
        return client.round > first_rounds

    def keeps(client: Client) -> bool:
        return second(client) and variant == "heads"

    def start_of(client: Client, state: Arrays, download: Arrays) -> Arrays:
        if not keeps(client):
            return model_of(download)
        head = state or from_under("initial", download)
        return {**parts(download, ["base"]), **head}

    def client_init(_client: Client, _download: Arrays) -> Arrays:
        return {}

    def client_update(client: Client, state: Arrays, download: Arrays) -> Trained:
        start = start_of(client, state, download)
        if not second(client):
            return update_of(client, client.train(start), weighting)
        if variant == "heads":
            model = train_by_turns(client, start, head_epochs, base_epochs)
            return decoupled.sent(client, model, "full", weighting)
        return update_of(client, train_by_steps(client, start, steps), weighting)

    def server_update(server: Server, state: Arrays, updates: Sequence[Update]) -> Arrays:
        mean = server.mean(updates)
        if server.round <= first_rounds:
            return {**mean, **under("initial", parts(mean, ["head"]))}
        return {**state, **mean}

    def stages(client: Client, state: Arrays, download: Arrays) -> Mapping[Stage, Predictor]:
        shared = client.predictor(model_of(download))
        if not keeps(client):
            return {"G": shared, "L1": shared}
        return {"G": shared, "L1": client.predictor(start_of(client, state, download))}

    return Algorithm(
        name="fedavg2rep",
        splits=True,
        server_init=decoupled.with_first_head,
        client_init=client_init,
        client_update=client_update,
        server_update=server_update,
        stages=stages,
    )
