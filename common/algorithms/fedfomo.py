"""FedFomo (Zhang et al., 2021): every client gets the models of those who help it most.

The server keeps the newest model of every client and how much each has helped each other.
A selected client gets a few other models, downloads of its own; it weighs them by how much
better than its last model they do on its validation samples, mixes them, and trains the mix.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
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
from common.arrays import Array, Arrays, from_under, moved, under, weighted_mean
from common.data.samples import Samples
from common.wire.messages import Stage

LARGEST_LOSS = 1e3
SMALL = 1e-5


def fedfomo(
    *,
    models: Annotated[
        int, Meta(ge=0, description="How many models of others a selected client gets.")
    ] = 5,
    validation: Annotated[
        float,
        Meta(
            gt=0, lt=1, description="Share of a client's samples that are used to judge models."
        ),
    ] = 0.2,
    explore: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Chance that a model is chosen at random; it falls by 0.05 a round.",
        ),
    ] = 0.0,
) -> Algorithm:
    """Clients mix the models of those who helped them most; there is no global model."""

    def server_init(server: Server, model: Arrays) -> Arrays:
        return {**model, "affinity": np.eye(server.clients)}

    def private(server: Server, state: Arrays, client: int) -> Arrays:
        known = known_clients(state)
        rng = server.rng(f"fomo {client}")
        chosen = choose(state["affinity"][client], known, models, explore, server.round, rng)
        found: dict[str, Array] = {}
        for other in chosen:
            found |= under(f"peer.{other}", from_under(f"client.{other}", state))
        return found

    def client_init(_client: Client, download: Arrays) -> Arrays:
        return model_of(download)

    def expects(server: Server, download: Arrays) -> Arrays:
        return {**model_of(download), "scores": np.zeros(server.clients, np.float32)}

    def client_update(client: Client, state: Arrays, download: Arrays) -> Trained:
        learn, judge = divided(client, validation)
        others = sorted({int(name.split(".")[1]) for name in download if name[:5] == "peer."})
        peers = {other: from_under(f"peer.{other}", download) for other in others}
        helped = {other: help_of(client, judge, state, peers[other]) for other in others}
        model = client.train(mix(state, peers, helped), samples=learn)
        scores = np.zeros(len(client.sizes), np.float32)
        for other, value in helped.items():
            scores[other] = value
        return Trained(
            state=model.arrays,
            arrays={**model.arrays, "scores": scores},
            weights=dict.fromkeys((*MODEL, "scores"), float(len(learn))),
            loss=model.loss,
            steps=model.steps,
            personal=client.predictor(model.arrays),
        )

    def server_update(_server: Server, state: Arrays, updates: Sequence[Update]) -> Arrays:
        affinity = state["affinity"].copy()
        newest: dict[str, Array] = {}
        for update in updates:
            newest |= under(f"client.{update.client}", model_of(update.arrays))
            affinity[update.client] += update.arrays["scores"]
        return {**state, **newest, "affinity": affinity}

    def global_model(state: Arrays) -> Arrays:
        """For inspection only: the mean of all newest models."""
        known = known_clients(state)
        if not known:
            return model_of(state)
        newest = (from_under(f"client.{client}", state) for client in known)
        return weighted_mean((model, dict.fromkeys(MODEL, 1.0)) for model in newest)

    def stages(_client: Client, _state: Arrays, _download: Arrays) -> Mapping[Stage, Predictor]:
        return {}  # only selected clients get models to mix; their accuracy is stage L2

    return Algorithm(
        name="fedfomo",
        server_init=server_init,
        broadcast=model_of,
        private=private,
        client_init=client_init,
        client_update=client_update,
        expects=expects,
        server_update=server_update,
        global_model=global_model,
        stages=stages,
        needs_each=True,
    )


def known_clients(state: Arrays) -> list[int]:
    """The clients whose model the server has."""
    return sorted({int(name.split(".")[1]) for name in state if name.startswith("client.")})


def choose(
    row: Array,
    known: Sequence[int],
    most: int,
    explore: float,
    round_number: int,
    rng: np.random.Generator,
) -> list[int]:
    """The `most` clients with the largest values; ties and exploration are random."""
    order = [known[at] for at in rng.permutation(len(known))]
    best = sorted(order, key=lambda client: -row[client])[:most]
    chance = max(0.0, explore - 0.05 * (round_number - 1))
    rest = [client for client in order if client not in best]
    for at in range(len(best)):
        if rest and rng.random() < chance:
            best[at] = rest.pop()
    return sorted(best)


def divided(client: Client, validation: float) -> tuple[Samples, Samples]:
    """The client's samples to train on, and the last ones of a shuffle to judge models with."""
    order = client.rng("validation").permutation(client.samples)
    held = min(client.samples - 1, max(1, round(validation * client.samples)))
    learn = client.data.take(order[: client.samples - held])
    return learn, client.data.take(order[client.samples - held :]) if held else learn


def help_of(client: Client, judge: Samples, own: Arrays, other: Arrays) -> float:
    """How much lower the other model's loss is, for each unit of distance to it."""
    lower = _loss(client, own, judge) - _loss(client, other, judge)
    steps = (step.astype(np.float64) for step in moved(other, own).values())
    far = math.sqrt(sum(float(np.sum(step**2)) for step in steps))
    return lower / (far + SMALL)


def _loss(client: Client, model: Arrays, judge: Samples) -> float:
    loss = client.mean_loss(model, judge)
    return LARGEST_LOSS if math.isnan(loss) else min(loss, LARGEST_LOSS)


def mix(
    own: Arrays, peers: Mapping[int, Arrays], helped: Mapping[int, float]
) -> dict[str, Array]:
    """The models that help, weighted by how much; the client's own model if none does."""
    useful = [
        (peers[other], dict.fromkeys(MODEL, helped[other]))
        for other in sorted(peers)
        if helped[other] > 0
    ]
    return weighted_mean(useful) if useful else dict(own)
