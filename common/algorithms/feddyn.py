"""FedDyn (Acar et al., 2021): dynamic regularisation, so that clients agree on an optimum.

Client k keeps the sum of its drifts, d_k (the paper's -g_k / alpha), the server their mean over
all clients, d (the paper's -h / alpha):

    client   minimise F_k(w) + alpha/2 |w - w_g + d_k|^2;   d_k += w_k - w_g
    server   d += sum_k (w_k - w_g) / N;                    w_g = mean_k(w_k) + d

Only drifts that the server has used may count for the client, so its state is coupled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from common.algorithms.base import (
    Algorithm,
    Client,
    Predictor,
    Server,
    Trained,
    Update,
    model_of,
    update_of,
)
from common.arrays import Arrays, from_under, moved, under
from common.wire.messages import Stage

if TYPE_CHECKING:
    from torch import Tensor


def feddyn(
    *,
    alpha: Annotated[float, Meta(gt=0, description="Strength of the regularisation.")] = 0.01,
    scale: Annotated[
        bool,
        Meta(
            description="Whether alpha is multiplied by n/n_k: more for clients with less data."
        ),
    ] = False,
    grad_clip: Annotated[
        float,
        Meta(ge=0, description="Largest norm of a gradient, if training.grad_clip is 0."),
    ] = 10.0,
    evaluate: Annotated[
        Literal["cloud", "average"],
        Meta(
            description='What counts as the global model: "cloud" (what clients get) or the '
            'plain "average" of the last updates.'
        ),
    ] = "cloud",
) -> Algorithm:
    """Clients and server keep sums of drifts that align the local objectives."""

    def server_init(_server: Server, model: Arrays) -> Arrays:
        average = under("average", model) if evaluate == "average" else {}
        zeros = {name: np.zeros_like(array) for name, array in moved(model, model).items()}
        return {**model, **under("drift", zeros), **average}

    def broadcast(state: Arrays) -> Arrays:
        return {name: array for name, array in state.items() if not name.startswith("drift.")}

    def client_init(_client: Client, download: Arrays) -> Arrays:
        model = model_of(download)
        return {name: np.zeros_like(array) for name, array in moved(model, model).items()}

    def client_update(client: Client, state: Arrays, download: Arrays) -> Trained:
        model = model_of(download)
        anchor, drift = client.tensors(model), client.tensors(state)
        strength = alpha * (float(client.sizes.mean()) / client.samples if scale else 1.0)

        def bend(parameters: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
            return {
                name: strength * (value - anchor[name] + drift[name])
                for name, value in parameters.items()
            }

        limit = client.training.grad_clip or grad_clip
        settings = msgspec.structs.replace(client.training, grad_clip=limit)
        trained = client.train(model, extra=bend, settings=settings)
        step = moved(trained.arrays, model)
        after = {name: state[name] + step[name] for name in state}
        return update_of(client, trained, "uniform", state=after)

    def server_update(server: Server, state: Arrays, updates: Sequence[Update]) -> Arrays:
        mean = server.mean(updates)
        share = np.float32(len(updates) / server.participants)
        step = moved(mean, server.download)  # from what was sent, as clients compute it
        drift = {
            name: old + share * step[name] for name, old in from_under("drift", state).items()
        }
        model = {
            name: array + drift[name] if name in drift and name not in server.buffers else array
            for name, array in mean.items()
        }
        average = under("average", mean) if evaluate == "average" else {}
        return {**model, **under("drift", drift), **average}

    def global_model(state: Arrays) -> Arrays:
        return from_under("average", state) if evaluate == "average" else model_of(state)

    def stages(client: Client, _state: Arrays, download: Arrays) -> Mapping[Stage, Predictor]:
        cloud = client.predictor(model_of(download))
        if evaluate == "average":
            return {"G": client.predictor(from_under("average", download)), "L1": cloud}
        return {"G": cloud, "L1": cloud}

    return Algorithm(
        name="feddyn",
        server_init=server_init,
        broadcast=broadcast,
        client_init=client_init,
        client_update=client_update,
        server_update=server_update,
        global_model=global_model,
        stages=stages,
        coupled=True,
    )
