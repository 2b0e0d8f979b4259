"""SCAFFOLD (Karimireddy et al., 2020): control variates take the drift out of local steps.

Client k keeps c_k, the server c, all zero at first:

    client   plain SGD with gradient + c - c_k;   c_k' = c_k - c + (w_g - w_k) / (steps * rate)
    server   w_g += server_rate * mean_k(w_k - w_g);   c += sum_k (c_k' - c_k) / N

What is sent up is the model and, under `change`, c_k' - c_k. The step of c_k is only right
without momentum, so clients train with plain SGD whatever the settings. A client's c_k'
counts once the server has used it: its state is coupled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np
from msgspec import Meta

from common.algorithms.base import (
    MODEL,
    Algorithm,
    Client,
    Server,
    Trained,
    Update,
    model_of,
)
from common.arrays import Arrays, from_under, moved, under

if TYPE_CHECKING:
    from torch import Tensor


def scaffold(
    *,
    server_rate: Annotated[
        float, Meta(gt=0, description="Share of the way to the mean that the server goes.")
    ] = 1.0,
) -> Algorithm:
    """Local steps are corrected by how a client's direction differs from the mean direction."""

    def server_init(_server: Server, model: Arrays) -> Arrays:
        return {**model, **under("control", _zeros(model))}

    def client_init(_client: Client, download: Arrays) -> Arrays:
        return _zeros(model_of(download))

    def expects(_server: Server, download: Arrays) -> Arrays:
        return {**model_of(download), **under("change", from_under("control", download))}

    def client_update(client: Client, state: Arrays, download: Arrays) -> Trained:
        model, control = model_of(download), from_under("control", download)
        terms = client.tensors({name: control[name] - state[name] for name in state})

        def correct(parameters: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
            return {name: terms[name] for name in parameters}

        settings = msgspec.structs.replace(client.training, optimizer="sgd", momentum=0.0)
        trained = client.train(model, extra=correct, settings=settings)
        change = _zeros(model)
        if trained.steps:  # without a step there is no new estimate of the direction
            way = np.float32(trained.steps * client.learning_rate)
            step = moved(trained.arrays, model)
            change = {name: -control[name] - step[name] / way for name in state}
        return Trained(
            state={name: state[name] + change[name] for name in state},
            arrays={**trained.arrays, **under("change", change)},
            weights=dict.fromkeys((*MODEL, "change"), 1.0),
            loss=trained.loss,
            steps=trained.steps,
            personal=client.predictor(trained.arrays),
        )

    def server_update(server: Server, state: Arrays, updates: Sequence[Update]) -> Arrays:
        mean = server.mean(updates)
        model, change = model_of(mean), from_under("change", mean)
        rate, share = np.float32(server_rate), np.float32(len(updates) / server.participants)
        new = {
            name: state[name] + rate * (array - state[name])
            if name in change and name not in server.buffers
            else array
            for name, array in model.items()
        }
        control = {
            name: old + share * change[name]
            for name, old in from_under("control", state).items()
        }
        return {**new, **under("control", control)}

    return Algorithm(
        name="scaffold",
        server_init=server_init,
        client_init=client_init,
        client_update=client_update,
        expects=expects,
        server_update=server_update,
        coupled=True,
    )


def _zeros(model: Arrays) -> Arrays:
    return {name: np.zeros_like(array) for name, array in moved(model, model).items()}
