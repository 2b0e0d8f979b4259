"""FedAvg (McMahan et al., 2017): clients train the global model, the server averages them."""

from __future__ import annotations

from common.algorithms.base import (
    Algorithm,
    Client,
    Trained,
    Weighting,
    update_of,
)
from common.arrays import Arrays


def fedavg(*, weighting: Weighting = "samples") -> Algorithm:
    """Average of the models that the selected clients trained from the global one."""

    def client_update(client: Client, _state: Arrays, download: Arrays) -> Trained:
        return update_of(client, client.train(download), weighting)

    return Algorithm(name="fedavg", client_update=client_update)
