"""What algorithms whose clients have their own heads share.

The server's state has, under `initial`, the very first head: a client that was never selected
still has that one, whatever the others have learnt. In FedPer and FedRep all clients share the
base and each keeps its head; the averaged head is only measured (G). FedRoD and FedReG have
a shared head and, as `personal`, one of each client's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from common.algorithms.base import (
    Client,
    LocalModel,
    Predictor,
    Server,
    Trained,
    Update,
    Weighting,
    model_of,
    update_of,
)
from common.arrays import Array, Arrays, from_under, parts, renamed, under
from common.wire.messages import Stage

Upload: TypeAlias = Annotated[
    Literal["full", "shared"],
    Meta(
        description='"full": clients also send their heads, so that the global model can be '
        'tested; "shared": only the base, and there is no global accuracy.'
    ),
]

FirstHead: TypeAlias = Annotated[
    Literal["initial", "current"],
    Meta(
        description="What a client's own head starts from when the client is first selected: "
        '"initial" (thesis), the head of the very first model, which then travels with every '
        'download; "current", the global head of that round.'
    ),
]


def with_first_head(_server: Server, model: Arrays) -> Arrays:
    """The first state: the model, and a copy of its head that never changes."""
    return {**model, **under("initial", parts(model, ["head"]))}


def first_head(_client: Client, download: Arrays) -> Arrays:
    """A client's first state: the very first head."""
    return from_under("initial", download)


def personal_head(which: FirstHead, download: Arrays) -> dict[str, Array]:
    """A client's first state where it has a head of its own beside the shared one."""
    source = from_under("initial", download) if which == "initial" else download
    return renamed(source, "head", "personal")


def own_model(state: Arrays, download: Arrays) -> dict[str, Array]:
    """The base that all share and the head that the client keeps."""
    return {**parts(download, ["base"]), **state}


def expects(upload: Upload, download: Arrays) -> Arrays:
    """What an update has."""
    return model_of(download) if upload == "full" else parts(download, ["base"])


def sent(client: Client, model: LocalModel, upload: Upload, weighting: Weighting) -> Trained:
    """The end of a client's training: it keeps its head and sends all or only the base."""
    arrays = model_of(model.arrays) if upload == "full" else parts(model.arrays, ["base"])
    whole = update_of(client, model, weighting, state=parts(model.arrays, ["head"]))
    return Trained(whole.state, arrays, whole.weights, model.loss, model.steps, whole.personal)


def new_state(server: Server, state: Arrays, updates: Sequence[Update]) -> Arrays:
    """The mean of what was sent; everything else stays."""
    return {**state, **server.mean(updates)}


def stages(
    upload: Upload, client: Client, state: Arrays, download: Arrays
) -> Mapping[Stage, Predictor]:
    """Own head on the shared base; the global model only if heads are averaged."""
    own = client.predictor(own_model(state, download))
    if upload == "shared":
        return {"L1": own}
    return {"G": client.predictor(model_of(download)), "L1": own}
