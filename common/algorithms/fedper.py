"""FedPer (Arivazhagan et al., 2019): clients share the base and keep their heads."""

from __future__ import annotations

from functools import partial

from common.algorithms import decoupled
from common.algorithms.base import Algorithm, Client, Server, Trained, Weighting
from common.algorithms.decoupled import Upload, own_model
from common.arrays import Arrays


def fedper(*, upload: Upload = "full", weighting: Weighting = "samples") -> Algorithm:
    """Clients train base and head together, but only the base comes back from the server."""

    def client_update(client: Client, state: Arrays, download: Arrays) -> Trained:
        model = client.train(own_model(state, download))
        return decoupled.sent(client, model, upload, weighting)

    def expects(_server: Server, download: Arrays) -> Arrays:
        return decoupled.expects(upload, download)

    return Algorithm(
        name="fedper",
        splits=True,
        server_init=decoupled.with_first_head,
        client_init=decoupled.first_head,
        client_update=client_update,
        expects=expects,
        server_update=decoupled.new_state,
        stages=partial(decoupled.stages, upload),
    )
