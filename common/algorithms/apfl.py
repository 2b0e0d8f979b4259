"""APFL (Deng et al., 2020): each client mixes its own model v with the global one, w.

Two variants. "blend" (as in PFLlib): both are trained separately, and after each training v
becomes alpha v + (1 - alpha) w. "mixture" (as in the paper): v is trained through the mixture,
which is the personal model, and stays apart. Both learn alpha, by steps along its gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, cast

import msgspec
import numpy as np
from msgspec import Meta

from common.algorithms.base import (
    MODEL,
    Algorithm,
    Batch,
    Client,
    Loss,
    Net,
    Predictor,
    Trained,
    Weighting,
    model_of,
    update_of,
)
from common.arrays import Array, Arrays, mixed, renamed
from common.wire.messages import Stage

if TYPE_CHECKING:
    from torch import Tensor, nn

OWN = ("own_base", "own_head")
DECAY = 0.02  # of alpha, in its gradient


def apfl(
    *,
    alpha: Annotated[
        float, Meta(ge=0, le=1, description="First share of its own model in a client's mix.")
    ] = 0.5,
    adaptive: Annotated[bool, Meta(description="Whether clients learn alpha.")] = True,
    variant: Annotated[
        Literal["blend", "mixture"],
        Meta(
            description='"blend": own model trained separately, then blended; "mixture": '
            "trained through the mixture."
        ),
    ] = "blend",
    weighting: Weighting = "samples",
) -> Algorithm:
    """Every client learns how much of its own model to mix with the global one."""

    def client_init(_client: Client, download: Arrays) -> Arrays:
        return {**_as_own(download), "alpha": np.array(alpha, np.float32)}

    def client_update(client: Client, state: Arrays, download: Arrays) -> Trained:
        share = _Share(float(state["alpha"]), client.learning_rate, adaptive=adaptive)
        own = {name: array for name, array in state.items() if name != "alpha"}
        # plain SGD, which the gradient of alpha assumes
        settings = msgspec.structs.replace(client.training, optimizer="sgd", momentum=0.0)
        model = client.train(
            {**model_of(download), **own},
            only=(*MODEL, *OWN),
            settings=settings,
            loss=_separate(client) if variant == "blend" else _through_mixture(client, share),
            after=share.follow if variant == "blend" else None,
        )
        trained, mine = model_of(model.arrays), _as_model(model.arrays)
        mixture = mixed(share.value, mine, trained)
        kept = mixture if variant == "blend" else mine
        return update_of(
            client,
            model,
            weighting,
            state={**_as_own(kept), "alpha": np.array(share.value, np.float32)},
            personal=client.predictor(mixture),
            values={"alpha": share.value},
        )

    def stages(client: Client, state: Arrays, download: Arrays) -> Mapping[Stage, Predictor]:
        own = _as_model(state)
        if variant == "mixture":
            own = mixed(float(state["alpha"]), own, model_of(download))
        return {"G": client.predictor(download), "L1": client.predictor(own)}

    return Algorithm(
        name="apfl",
        client_init=client_init,
        client_update=client_update,
        stages=stages,
        copies={"own_base": "base", "own_head": "head"},
    )


def _as_own(model: Arrays) -> dict[str, Array]:
    return {**renamed(model, "base", "own_base"), **renamed(model, "head", "own_head")}


def _as_model(arrays: Arrays) -> dict[str, Array]:
    return {**renamed(arrays, "own_base", "base"), **renamed(arrays, "own_head", "head")}


class _Share:
    """A client's alpha during one training."""

    def __init__(self, value: float, rate: float, *, adaptive: bool) -> None:
        self.value = value
        self._rate = rate
        self._adaptive = adaptive

    def follow(self, parameters: Mapping[str, Tensor], gradients: Mapping[str, Tensor]) -> None:
        """After a step: gradients from before it, the difference of the models after it."""
        slope = 0.0
        for name, own in parameters.items():
            if name.startswith("own_"):
                shared = name.removeprefix("own_")
                direction = self.value * gradients[name] + (1 - self.value) * gradients[shared]
                slope += float(((own - parameters[shared]) * direction).sum())
        self.move(slope + DECAY * self.value)

    def move(self, slope: float) -> None:
        """One gradient step, kept between 0 and 1."""
        if self._adaptive:
            self.value = min(1.0, max(0.0, self.value - self._rate * slope))


def _separate(client: Client) -> Loss:
    """Both models separately: they share nothing, so a step on the sum is a step on each."""

    def loss(net: Net, inputs: Batch, targets: Tensor) -> Tensor:
        own = net.part("own_head")(net.part("own_base")(inputs))
        return client.loss(net(inputs), targets) + client.loss(own, targets)

    return loss


def _through_mixture(client: Client, share: _Share) -> Loss:
    """The global model separately, the own one through the mixture; alpha moves once, first."""
    import torch

    first = True

    def loss(net: Net, inputs: Batch, targets: Tensor) -> Tensor:
        nonlocal first
        base = _mixture(net, "base", share.value)
        head = _mixture(net, "head", share.value)
        features = torch.func.functional_call(_module(net, "own_base"), base, (inputs,))
        logits = torch.func.functional_call(_module(net, "own_head"), head, (features,))
        through = client.loss(logits, targets)
        if first:
            first = False
            share.move(_slope(net, {"base": base, "head": head}, through))
        return client.loss(net(inputs), targets) + through

    return loss


def _module(net: Net, name: str) -> nn.Module:
    return cast("nn.Module", net.part(name))


def _mixture(net: Net, part: str, share: float) -> dict[str, Tensor]:
    shared = dict(_module(net, part).named_parameters())
    return {
        name: share * own + (1 - share) * shared[name].detach()
        for name, own in _module(net, f"own_{part}").named_parameters()
    }


def _slope(net: Net, mixtures: Mapping[str, Mapping[str, Tensor]], loss: Tensor) -> float:
    """The change of the loss with alpha: <v - w, gradient at the mixture>."""
    import torch

    slope = 0.0
    for part, mixture in mixtures.items():
        gradients = torch.autograd.grad(loss, list(mixture.values()), retain_graph=True)
        own = dict(_module(net, f"own_{part}").named_parameters())
        shared = dict(_module(net, part).named_parameters())
        for name, gradient in zip(mixture, gradients, strict=True):
            slope += float(((own[name] - shared[name]).detach() * gradient).sum())
    return slope
