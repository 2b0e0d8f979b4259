"""FedBN (Li et al., 2021): any algorithm, but each client keeps its own BatchNorm layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from common.algorithms.base import Algorithm, Client, Predictor, Trained, model_of
from common.arrays import Array, Arrays, from_under, under
from common.wire.messages import Stage

MARK = "running_mean"  # the array that identifies a BatchNorm layer
KEPT = "norm"


def with_local_norm(algorithm: Algorithm) -> Algorithm:
    """The algorithm, with the BatchNorm layers of its clients kept where they are."""

    def client_init(client: Client, download: Arrays) -> Arrays:
        return {**algorithm.client_init(client, download), **under(KEPT, norms(download))}

    def client_update(client: Client, state: Arrays, download: Arrays) -> Trained:
        own, rest = from_under(KEPT, state), _without(state)
        trained = algorithm.client_update(client, rest, {**download, **own})
        own |= {name: trained.arrays[name] for name in own if name in trained.arrays}
        return replace(trained, state={**trained.state, **under(KEPT, own)})

    def stages(client: Client, state: Arrays, download: Arrays) -> Mapping[Stage, Predictor]:
        own, rest = from_under(KEPT, state), _without(state)
        shared = algorithm.stages(client, rest, download)
        personal = algorithm.stages(client, rest, {**download, **own})
        return {stage: shared[stage] if stage == "G" else personal[stage] for stage in shared}

    return replace(
        algorithm, client_init=client_init, client_update=client_update, stages=stages
    )


def norms(arrays: Arrays) -> dict[str, Array]:
    """The arrays of all BatchNorm layers of the model."""
    model = model_of(arrays)
    layers = tuple(name.removesuffix(MARK) for name in model if name.endswith(MARK))
    return {name: array for name, array in model.items() if name.startswith(layers or "\0")}


def _without(state: Arrays) -> Arrays:
    return {name: array for name, array in state.items() if not name.startswith(f"{KEPT}.")}
