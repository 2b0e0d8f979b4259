"""FedRep (Collins et al., 2021): first the head on a frozen base, then the base.

Two variants: "heads", in which clients keep their heads (the usual one), and "steps", in which
the whole global model is loaded and only the last of a few mini-batch steps is on all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from common.algorithms import decoupled
from common.algorithms.base import (
    Algorithm,
    Client,
    LocalModel,
    Predictor,
    Server,
    Trained,
    Weighting,
    model_of,
    update_of,
)
from common.algorithms.decoupled import Upload, own_model
from common.arrays import Arrays
from common.wire.messages import Stage

HeadEpochs: TypeAlias = Annotated[
    int, Meta(ge=0, description='Epochs on the head (only "heads").')
]
BaseEpochs: TypeAlias = Annotated[
    int, Meta(ge=1, description='Epochs on the base, after the head (only "heads").')
]
Steps: TypeAlias = Annotated[
    int,
    Meta(ge=1, description='Mini-batch steps, the last one on the whole model (only "steps").'),
]


def fedrep(
    *,
    variant: Annotated[
        Literal["heads", "steps"],
        Meta(description='"heads": epochs, clients keep their heads; "steps": a few steps.'),
    ] = "heads",
    head_epochs: HeadEpochs = 5,
    base_epochs: BaseEpochs = 1,
    steps: Steps = 4,
    keep_head: Annotated[
        bool,
        Meta(description='Whether clients keep their heads in the variant "steps", too.'),
    ] = False,
    upload: Upload = "full",
    weighting: Weighting = "samples",
) -> Algorithm:
    """Clients train their head on the frozen base, then the base under the frozen head."""
    keeps = variant == "heads" or keep_head

    def client_update(client: Client, state: Arrays, download: Arrays) -> Trained:
        start = own_model(state, download) if keeps else model_of(download)
        if variant == "heads":
            model = train_by_turns(client, start, head_epochs, base_epochs)
        else:
            model = train_by_steps(client, start, steps)
        if keeps:
            return decoupled.sent(client, model, upload, weighting)
        return update_of(client, model, weighting)

    def client_init(client: Client, download: Arrays) -> Arrays:
        return decoupled.first_head(client, download) if keeps else {}

    def expects(_server: Server, download: Arrays) -> Arrays:
        return decoupled.expects(upload if keeps else "full", download)

    def stages(client: Client, state: Arrays, download: Arrays) -> Mapping[Stage, Predictor]:
        if keeps:
            return decoupled.stages(upload, client, state, download)
        model = client.predictor(model_of(download))
        return {"G": model, "L1": model}

    return Algorithm(
        name="fedrep",
        splits=True,
        server_init=decoupled.with_first_head,
        client_init=client_init,
        client_update=client_update,
        expects=expects,
        server_update=decoupled.new_state,
        stages=stages,
    )


def train_by_turns(
    client: Client, start: Arrays, head_epochs: int, base_epochs: int
) -> LocalModel:
    """The head for some epochs, then the base."""
    arrays, steps = start, 0
    if head_epochs:
        head = client.train(arrays, only=("head",), epochs=head_epochs, purpose="head")
        arrays, steps = head.arrays, head.steps
    base = client.train(arrays, only=("base",), epochs=base_epochs, purpose="base")
    return LocalModel(base.arrays, base.loss, steps + base.steps)


def train_by_steps(client: Client, start: Arrays, steps: int) -> LocalModel:
    """All steps but one on the head, then one on the whole model."""
    arrays = start
    if steps > 1:
        arrays = client.train(arrays, only=("head",), steps=steps - 1, purpose="head").arrays
    last = client.train(arrays, steps=1)
    return LocalModel(last.arrays, last.loss, steps)
