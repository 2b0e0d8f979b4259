"""FedAvgM (Hsu et al., 2019): FedAvg whose server moves with momentum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from msgspec import Meta

from common.algorithms.base import Algorithm, Server, Update, Weighting, model_of
from common.algorithms.fedavg import fedavg
from common.arrays import Arrays, from_under, moved, under


def fedavgm(
    *,
    beta: Annotated[float, Meta(ge=0, lt=1, description="Momentum of the server.")] = 0.9,
    server_rate: Annotated[float, Meta(gt=0, description="Step size of the server.")] = 1.0,
    dampening: Annotated[
        bool,
        Meta(
            description="Whether a round's move enters the momentum with 1 - beta; without it "
            "steps grow up to 1 / (1 - beta) times as long, so lower a rate."
        ),
    ] = True,
    weighting: Weighting = "samples",
) -> Algorithm:
    """The server adds a running mean of the rounds' moves instead of the last one."""

    def server_init(_server: Server, model: Arrays) -> Arrays:
        zeros = {name: np.zeros_like(array) for name, array in moved(model, model).items()}
        return {**model, **under("momentum", zeros)}

    def server_update(server: Server, state: Arrays, updates: Sequence[Update]) -> Arrays:
        mean = server.mean(updates)
        keep, rate = np.float32(beta), np.float32(server_rate)
        enter = np.float32(1 - beta) if dampening else np.float32(1)
        step = moved(mean, state)
        momentum = {
            name: keep * old + enter * step[name]
            for name, old in from_under("momentum", state).items()
        }
        model = {
            name: state[name] + rate * momentum[name]
            if name in momentum and name not in server.buffers
            else array
            for name, array in mean.items()
        }
        return {**model, **under("momentum", momentum)}

    return Algorithm(
        name="fedavgm",
        client_update=fedavg(weighting=weighting).client_update,
        server_init=server_init,
        broadcast=model_of,
        server_update=server_update,
    )
