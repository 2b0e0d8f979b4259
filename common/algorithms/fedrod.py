"""FedRoD (Chen and Chao, 2022): one shared head, trained as if classes were balanced,
and one for each client, which learns what is left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from common.algorithms.base import (
    OF_ONE_CLASS,
    Algorithm,
    Batch,
    Client,
    Net,
    Predictor,
    Trained,
    Weighting,
    model_of,
    start_from,
    update_of,
)
from common.algorithms.decoupled import FirstHead, new_state, personal_head, with_first_head
from common.arrays import Arrays, parts
from common.wire.messages import Stage

if TYPE_CHECKING:
    from torch import Tensor


def fedrod(*, first_head: FirstHead = "initial", weighting: Weighting = "samples") -> Algorithm:
    """The shared head learns by balanced softmax; personal logits are added to its own."""

    def client_init(_client: Client, download: Arrays) -> Arrays:
        return personal_head(first_head, download)

    def client_update(client: Client, state: Arrays, download: Arrays) -> Trained:
        seen = np.log(np.maximum(client.counts, 1e-9)).astype(np.float32)
        prior = client.tensors({"prior": seen})["prior"]

        def loss(net: Net, inputs: Batch, labels: Tensor) -> Tensor:
            # the two terms share no parameter, so one step on their sum is a step on each
            features = net.part("base")(inputs)
            shared = net.part("head")(features)
            balanced = client.loss(shared + prior, labels)
            own = shared.detach() + net.part("personal")(features.detach())
            return balanced + client.loss(own, labels)

        start = {**model_of(download), **state}
        model = client.train(start, only=("base", "head", "personal"), loss=loss)
        personal = client.predictor(model.arrays, both_heads)
        kept = parts(model.arrays, ["personal"])
        return update_of(client, model, weighting, state=kept, personal=personal)

    def stages(client: Client, state: Arrays, download: Arrays) -> Mapping[Stage, Predictor]:
        shared = model_of(download)
        own = client.predictor({**shared, **state}, both_heads)
        return {"G": client.predictor(shared), "L1": own}

    return Algorithm(
        name="fedrod",
        splits=True,
        server_init=with_first_head if first_head == "initial" else start_from,
        client_init=client_init,
        client_update=client_update,
        server_update=new_state,
        stages=stages,
        copies={"personal": "head"},
        tasks=OF_ONE_CLASS,
    )


def both_heads(net: Net, inputs: Batch) -> Tensor:
    """Logits of the shared head plus those of the client's own."""
    features = net.part("base")(inputs)
    return net.part("head")(features) + net.part("personal")(features)
