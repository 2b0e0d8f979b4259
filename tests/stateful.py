"""Two small algorithms with client state, for tests of crashes: each class of state once.

Their states change what clients send, so a state that is lost, used twice or taken from the
wrong round changes the global model.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from common.algorithms.base import Algorithm, Client, Trained
from common.algorithms.fedavg import fedavg
from common.arrays import Array, Arrays


def personal() -> Algorithm:
    """A client keeps its own model and starts in the middle between it and the global one."""

    def client_init(_client: Client, download: Arrays) -> Arrays:
        return download

    def client_update(client: Client, state: Arrays, download: Arrays) -> Trained:
        half = np.float32(0.5)
        start = {name: half * (state[name] + download[name]) for name in download}
        trained = fedavg().client_update(client, {}, start)
        return replace(trained, state=trained.arrays)

    return replace(
        fedavg(), name="personal", client_init=client_init, client_update=client_update
    )


def coupled() -> Algorithm:
    """A client keeps the sum of its drifts; it only counts what the server has used."""

    def client_init(_client: Client, download: Arrays) -> Arrays:
        return {name: np.zeros_like(array) for name, array in download.items()}

    def client_update(client: Client, state: Arrays, download: Arrays) -> Trained:
        step = np.float32(0.1)
        start = {name: download[name] - step * state[name] for name in download}
        trained = fedavg().client_update(client, {}, start)
        drift: dict[str, Array] = {
            name: state[name] + trained.arrays[name] - download[name] for name in download
        }
        return replace(trained, state=drift)

    return replace(
        fedavg(),
        name="coupled",
        client_init=client_init,
        client_update=client_update,
        coupled=True,
    )
