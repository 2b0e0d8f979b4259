"""FedReG (in the thesis: FedReb): two heads, and a rebalanced set for the shared one.

A client has the shared model (base and head H1) and a head of its own, H2, and trains in two
phases. First base and H2 on its own samples, with the sum of both heads' logits; H1 takes part
but is not changed. Then base and H1 on its rebalanced set, in which every class the client has
is equally frequent. H2 stays with the client. The server weighs bases by the clients' samples,
heads by their effective samples: those of the rebalanced set that are no augmented copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from common.algorithms.base import (
    KINDS,
    MODEL,
    OF_ONE_CLASS,
    Algorithm,
    Client,
    LocalModel,
    Loss,
    Predictor,
    Trained,
    model_of,
    start_from,
)
from common.algorithms.decoupled import FirstHead, new_state, personal_head, with_first_head
from common.algorithms.fedrod import both_heads
from common.arrays import Arrays, parts
from common.data.rebalance import Rebalance
from common.wire.messages import Stage

if TYPE_CHECKING:
    pass


def fedreg(
    *,
    scope: Annotated[
        Literal["client", "all"],
        Meta(
            description='Samples per class in the rebalanced set: "client" (thesis) from the '
            'client\'s own class counts, "all" (paper) from the sizes of all clients.'
        ),
    ] = "client",
    statistic: Annotated[
        Literal["mean", "median", "max", "min", "secmin", "number"],
        Meta(description="Which statistic of those counts; secmin is the second smallest."),
    ] = "mean",
    number: Annotated[
        int, Meta(ge=0, description='Samples per class (only statistic "number").')
    ] = 0,
    augmentation: Annotated[
        Literal["five_step", "autoaugment", "duplicate"],
        Meta(description="How missing samples are made from existing ones."),
    ] = "five_step",
    agg_weights: Annotated[
        Literal["split", "origin"],
        Meta(
            description='"split": heads count by effective samples; "origin": by all samples, '
            "like bases (ablation a)."
        ),
    ] = "split",
    single_head: Annotated[
        bool, Meta(description="One head in both phases (ablation b).")
    ] = False,
    phase2_data: Annotated[
        Literal["rebalanced", "original"],
        Meta(description="What the second phase trains on (ablation c: original)."),
    ] = "rebalanced",
    skip_phase1: Annotated[bool, Meta(description="No first phase (ablation d).")] = False,
    update_h1_phase1: Annotated[
        bool, Meta(description="Whether the first phase changes the shared head, too.")
    ] = False,
    interleave: Annotated[
        bool,
        Meta(description="Alternate the phases epoch by epoch instead of one after the other."),
    ] = False,
    first_head: FirstHead = "initial",
) -> Algorithm:
    """A head of its own for each client, and a shared one that learns from balanced classes."""
    own = () if single_head else ("personal",)
    first_parts = ("base", *(("head",) if update_h1_phase1 or single_head else ()), *own)
    has_set = phase2_data == "rebalanced"
    sends_first = first_head == "initial" and not single_head

    def client_init(_client: Client, download: Arrays) -> Arrays:
        return {} if single_head else personal_head(first_head, download)

    def client_update(client: Client, state: Arrays, download: Arrays) -> Trained:
        model = LocalModel({**model_of(download), **state}, 0.0, 0)
        if interleave:
            for epoch in range(client.training.epochs):
                model = both_phases(client, model, 1, f"-{epoch}")
        else:
            model = both_phases(client, model, None, "")
        split = agg_weights == "split" and has_set
        effective = client.rebalanced.effective if split else client.samples
        return Trained(
            state=parts(model.arrays, own),
            arrays=model_of(model.arrays),
            weights={"base": float(client.samples), "head": float(effective)},
            loss=model.loss,
            steps=model.steps,
            personal=own_model(client, model.arrays),
        )

    def both_phases(
        client: Client, model: LocalModel, epochs: int | None, suffix: str
    ) -> LocalModel:
        if not skip_phase1:
            done = client.train(
                model.arrays,
                only=first_parts,
                epochs=epochs,
                loss=None if single_head else sum_of_heads(client),
                purpose=f"shuffle{suffix}",
                phase="shuffle",
            )
            model = LocalModel(done.arrays, done.loss, model.steps + done.steps)
        done = client.train(
            model.arrays,
            only=MODEL,
            epochs=epochs,
            samples=client.rebalanced.samples if has_set else None,
            purpose=f"rebalanced{suffix}",
            phase="rebalanced",
        )
        return LocalModel(done.arrays, done.loss, model.steps + done.steps)

    def own_model(client: Client, arrays: Arrays) -> Predictor:
        return client.predictor(arrays, None if single_head else both_heads)

    def stages(client: Client, state: Arrays, download: Arrays) -> Mapping[Stage, Predictor]:
        shared = model_of(download)
        return {"G": client.predictor(shared), "L1": own_model(client, {**shared, **state})}

    return Algorithm(
        name="fedreg",
        splits=True,
        server_init=with_first_head if sends_first else start_from,
        client_init=client_init,
        client_update=client_update,
        server_update=new_state,
        stages=stages,
        copies={"personal": "head"},
        rebalance=Rebalance(
            scope=scope, statistic=statistic, number=number, augmentation=augmentation
        )
        if has_set
        else None,
        tasks=OF_ONE_CLASS if has_set else KINDS,
    )


def sum_of_heads(client: Client) -> Loss:
    """The loss of the first phase; its gradient reaches the base through both heads."""
    return lambda net, inputs, targets: client.loss(both_heads(net, inputs), targets)
