"""FLIU: a client continues from a mixture of its own last model and the global one.

How much of its own it keeps is fixed, or follows from how much data it has compared with the
others: the more, the more of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from common.algorithms.base import (
    Algorithm,
    Client,
    Predictor,
    Trained,
    Weighting,
    model_of,
    update_of,
)
from common.arrays import Arrays, mixed
from common.wire.messages import Stage

STEPS = ((10.0, 0.9), (5.0, 0.75), (1.0, 0.5), (0.5, 0.25))
SMALLEST = 0.1


def fliu(
    *,
    gamma: Annotated[
        float,
        Meta(
            ge=-1,
            le=1,
            description="Share of its own model that a client keeps; -1 = from its share of "
            "the data.",
        ),
    ] = -1.0,
    weighting: Weighting = "uniform",
) -> Algorithm:
    """Clients keep a share of what they had, and more of it the more data they have."""

    def client_init(_client: Client, _download: Arrays) -> Arrays:
        return {}

    def start_of(client: Client, state: Arrays, download: Arrays) -> Arrays:
        if not state:
            return download
        share = gamma if gamma >= 0 else adapted(client)
        return mixed(share, state, download)

    def client_update(client: Client, state: Arrays, download: Arrays) -> Trained:
        model = client.train(start_of(client, state, model_of(download)))
        return update_of(client, model, weighting, state=model.arrays)

    def stages(client: Client, state: Arrays, download: Arrays) -> Mapping[Stage, Predictor]:
        own = client.predictor(start_of(client, state, download))
        return {"G": client.predictor(download), "L1": own}

    return Algorithm(
        name="fliu", client_init=client_init, client_update=client_update, stages=stages
    )


def adapted(client: Client) -> float:
    """The share for a client with so many samples: that of the first threshold it exceeds."""
    mean = client.sizes.sum() / len(client.sizes)
    return next((g for times, g in STEPS if client.samples > times * mean), SMALLEST)
