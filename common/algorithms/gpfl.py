"""GPFL (Zhang et al., 2023): features are conditioned twice, globally and personally.

Shared are the base, a table with an embedding of every class (`gce`), and the conditional valve
(`cov`), which turns features f and a condition c into

    ReLU(f * (1 + gamma(c)) + beta(c)),   gamma, beta: Linear, ReLU, LayerNorm

The global condition is the mean of the class embeddings, a client's own condition their mean
by its class frequencies. Heads stay with the clients; their mean, on the mean of the
conditions, is what counts as the global model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from common.algorithms.base import (
    OF_ONE_CLASS,
    Algorithm,
    Batch,
    Client,
    Net,
    Predictor,
    Server,
    Trained,
    Update,
    Weighting,
)
from common.arrays import Array, Arrays, from_under, parts, under
from common.wire.messages import Stage

if TYPE_CHECKING:
    from torch import Tensor

SHARED = ("base", "cov", "gce")
TRAINED = ("base", "head", "cov", "gce")
TABLE = "gce.table"
CONDITION = "condition.own"
Branch = Literal["gamma", "beta"]


def gpfl(
    *,
    lam: Annotated[
        float, Meta(ge=0, description="Pull of global features to their class's embedding.")
    ] = 0.01,
    mu: Annotated[
        float, Meta(ge=0, description="Weight decay of the valve and of the embeddings.")
    ] = 0.1,
    weighting: Weighting = "samples",
) -> Algorithm:
    """Features are conditioned on class embeddings: on all of them, and on the client's mix."""

    def server_init(server: Server, model: Arrays) -> Arrays:
        features = _features(model)
        rng = server.rng("gpfl")
        table = rng.standard_normal((server.classes, features)).astype(np.float32)
        extra = {**_first_valve(rng, features), TABLE: table, CONDITION: table.mean(axis=0)}
        return {**model, **extra, **under("initial", parts(model, ["head"]))}

    def client_init(_client: Client, download: Arrays) -> Arrays:
        return from_under("initial", download)

    def expects(_server: Server, download: Arrays) -> Arrays:
        return parts(download, (*TRAINED, "condition"))

    def client_update(client: Client, state: Arrays, download: Arrays) -> Trained:
        from torch.nn import functional  # only training processes have torch

        own = _own_condition(client, download)
        given = {"table": download[TABLE], "own": own, "all": download[TABLE].mean(axis=0)}
        fixed = client.tensors(given)

        def loss(net: Net, inputs: Batch, labels: Tensor) -> Tensor:
            features = net.part("base")(inputs)
            personal = net.part("head")(_valve(net, features, fixed["own"]))
            shared = _valve(net, features, fixed["all"])
            directions = functional.normalize(net.tensor(TABLE))
            angles = functional.normalize(shared) @ directions.T
            distance: Tensor = (shared - fixed["table"][labels]).norm()
            own_loss = client.loss(personal, labels)
            return own_loss + functional.cross_entropy(angles, labels) + lam * distance

        steered = msgspec.structs.replace(
            client.training, optimizer="sgd", momentum=0.0, weight_decay=mu
        )
        start = {**parts(download, SHARED), **state}
        special = {"cov": steered, "gce": steered}
        model = client.train(start, only=TRAINED, loss=loss, special=special)
        weight = float(client.samples) if weighting == "samples" else 1.0
        return Trained(
            state=parts(model.arrays, ["head"]),
            arrays={**model.arrays, CONDITION: own},
            weights=dict.fromkeys((*TRAINED, "condition"), weight),
            loss=model.loss,
            steps=model.steps,
            personal=_predictor(client, model.arrays, own),
        )

    def server_update(server: Server, state: Arrays, updates: Sequence[Update]) -> Arrays:
        return {**state, **server.mean(updates)}

    def stages(client: Client, state: Arrays, download: Arrays) -> Mapping[Stage, Predictor]:
        own = _own_condition(client, download)
        shared = parts(download, SHARED)
        everyone = {**shared, **parts(download, ["head"])}
        return {
            "G": _predictor(client, everyone, download[CONDITION]),
            "L1": _predictor(client, {**shared, **state}, own),
        }

    def global_model(state: Arrays) -> Arrays:
        return parts(state, (*TRAINED, "condition"))

    return Algorithm(
        name="gpfl",
        splits=True,
        server_init=server_init,
        client_init=client_init,
        client_update=client_update,
        expects=expects,
        server_update=server_update,
        global_model=global_model,
        stages=stages,
        tasks=OF_ONE_CLASS,
    )


def _features(model: Arrays) -> int:
    """How many features the head takes."""
    matrices = (array for array in parts(model, ["head"]).values() if array.ndim == 2)
    return int(next(matrices).shape[1])


def _first_valve(rng: np.random.Generator, features: int) -> dict[str, Array]:
    bound = 1 / np.sqrt(features)
    arrays: dict[str, Array] = {}
    for branch in ("gamma", "beta"):
        draw = rng.uniform(-bound, bound, (features + 1, features)).astype(np.float32)
        arrays[f"cov.{branch}_weight"] = draw[:-1]
        arrays[f"cov.{branch}_bias"] = draw[-1]
        arrays[f"cov.{branch}_scale"] = np.ones(features, np.float32)
        arrays[f"cov.{branch}_shift"] = np.zeros(features, np.float32)
    return arrays


def _own_condition(client: Client, download: Arrays) -> Array:
    """The mean embedding of the classes, by the client's frequencies."""
    frequencies = (client.counts / client.counts.sum()).astype(np.float32)
    condition: Array = frequencies @ download[TABLE]
    return condition


def _valve(net: Net, features: Tensor, condition: Tensor) -> Tensor:
    from torch.nn import functional

    def branch(name: Branch) -> Tensor:
        weight, bias = net.tensor(f"cov.{name}_weight"), net.tensor(f"cov.{name}_bias")
        scale, shift = net.tensor(f"cov.{name}_scale"), net.tensor(f"cov.{name}_shift")
        bent = functional.relu(functional.linear(condition, weight, bias))
        return functional.layer_norm(bent, bent.shape, scale, shift)

    return functional.relu(features * (branch("gamma") + 1) + branch("beta"))


def _predictor(client: Client, arrays: Arrays, condition: Array) -> Predictor:
    fixed = client.tensors({"condition": condition})["condition"]

    def logits(net: Net, inputs: Batch) -> Tensor:
        return net.part("head")(_valve(net, net.part("base")(inputs), fixed))

    return client.predictor(arrays, logits)
