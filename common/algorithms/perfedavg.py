"""Per-FedAvg, first order (Fallah et al., 2020): a global model that is good after one step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, cast

import msgspec
from msgspec import Meta

from common.algorithms.base import (
    Algorithm,
    Batch,
    Client,
    Net,
    Predictor,
    Trained,
    Weighting,
    model_of,
    rows,
    update_of,
)
from common.arrays import Arrays
from common.config import TrainingSection
from common.wire.messages import Stage

if TYPE_CHECKING:
    from torch import Tensor, nn


def perfedavg(
    *,
    inner_rate: Annotated[
        float,
        Meta(ge=0, description="Size of the inner step; 0 = the learning rate of the round."),
    ] = 0.0,
    adapt: Annotated[
        Literal["step", "epoch"],
        Meta(description="How long a client adapts the global model before it is tested."),
    ] = "step",
    weighting: Weighting = "samples",
) -> Algorithm:
    """Clients apply the gradient that they would have after one step of their own."""

    def client_update(client: Client, _state: Arrays, download: Arrays) -> Trained:
        import torch

        rate = inner_rate or client.learning_rate

        def loss(net: Net, inputs: Batch, labels: Tensor) -> Tensor | None:
            half = len(labels) // 2
            if half < (2 if net.has_norm else 1):
                return None
            module = cast("nn.Module", net)
            parameters = dict(module.named_parameters())
            here = client.loss(net(rows(inputs, slice(half))), labels[:half])
            gradients = torch.autograd.grad(here, list(parameters.values()))
            # first order: the gradient at the looked-ahead point, applied here
            ahead = {
                name: value - rate * gradient
                for (name, value), gradient in zip(parameters.items(), gradients, strict=True)
            }
            logits = torch.func.functional_call(
                module, ahead, (rows(inputs, slice(half, None)),)
            )
            return client.loss(logits, labels[half:])

        settings = msgspec.structs.replace(
            _plain(client), batch_size=2 * client.training.batch_size
        )
        model = client.train(model_of(download), settings=settings, loss=loss)
        return update_of(client, model, weighting, personal=adapted(client, model.arrays))

    def adapted(client: Client, model: Arrays) -> Predictor:
        """A copy that is tested and then thrown away."""
        step = adapt == "step"
        found = client.train(
            model,
            steps=1 if step else None,
            epochs=None if step else 1,
            settings=_plain(client),
            purpose="adaptation",
        )
        return client.predictor(found.arrays)

    def stages(client: Client, _state: Arrays, download: Arrays) -> Mapping[Stage, Predictor]:
        return {"G": client.predictor(download), "L1": adapted(client, download)}

    return Algorithm(name="perfedavg", client_update=client_update, stages=stages)


def _plain(client: Client) -> TrainingSection:
    """Plain SGD: what the algorithm is defined for."""
    return msgspec.structs.replace(client.training, optimizer="sgd", momentum=0.0)
