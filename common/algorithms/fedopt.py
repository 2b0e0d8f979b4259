"""FedAdagrad, FedAdam and FedYogi (Reddi et al., 2021): the server takes adaptive steps.

With D the mean move of the clients in a round:

    m = beta_1 m + (1 - beta_1) D
    v = v + D^2 (Adagrad);   beta_2 v + (1 - beta_2) D^2 (Adam);
        v - (1 - beta_2) D^2 sign(v - D^2) (Yogi)
    w_g += server_rate * m / (sqrt(v) + tau)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypeAlias

import numpy as np
from msgspec import Meta

from common.algorithms.base import Algorithm, Server, Update, Weighting, model_of
from common.algorithms.fedavg import fedavg
from common.arrays import Array, Arrays, from_under, moved, under

Rate: TypeAlias = Annotated[float, Meta(gt=0, description="Step size of the server.")]
Beta1: TypeAlias = Annotated[float, Meta(ge=0, lt=1, description="Memory of the mean move.")]
Beta2: TypeAlias = Annotated[float, Meta(ge=0, lt=1, description="Memory of the mean square.")]
Tau: TypeAlias = Annotated[
    float, Meta(gt=0, description="Smallest divisor: the larger, the less adaptive.")
]
First: TypeAlias = Annotated[
    float, Meta(ge=-1, description="First mean square; -1 stands for tau squared.")
]
Square: TypeAlias = Callable[[Array, Array], Array]


def fedadagrad(
    *,
    server_rate: Rate = 0.01,
    beta_1: Beta1 = 0.9,
    tau: Tau = 1e-3,
    first_square: First = -1.0,
    weighting: Weighting = "samples",
) -> Algorithm:
    """The server divides its step by the root of all squared moves so far."""

    def square(old: Array, move: Array) -> Array:
        new: Array = old + move**2
        return new

    return _fedopt("fedadagrad", square, server_rate, beta_1, tau, first_square, weighting)


def fedadam(
    *,
    server_rate: Rate = 0.01,
    beta_1: Beta1 = 0.9,
    beta_2: Beta2 = 0.99,
    tau: Tau = 1e-3,
    first_square: First = -1.0,
    weighting: Weighting = "samples",
) -> Algorithm:
    """The server takes steps like Adam, without correction of the bias."""

    def square(old: Array, move: Array) -> Array:
        return np.float32(beta_2) * old + np.float32(1 - beta_2) * move**2

    return _fedopt("fedadam", square, server_rate, beta_1, tau, first_square, weighting)


def fedyogi(
    *,
    server_rate: Rate = 0.01,
    beta_1: Beta1 = 0.9,
    beta_2: Beta2 = 0.99,
    tau: Tau = 1e-3,
    first_square: First = -1.0,
    weighting: Weighting = "samples",
) -> Algorithm:
    """The server takes steps like Yogi: Adam whose mean square changes by bounded steps."""

    def square(old: Array, move: Array) -> Array:
        new: Array = old - np.float32(1 - beta_2) * move**2 * np.sign(old - move**2)
        return new

    return _fedopt("fedyogi", square, server_rate, beta_1, tau, first_square, weighting)


def _fedopt(
    name: str,
    square: Square,
    server_rate: float,
    beta_1: float,
    tau: float,
    first_square: float,
    weighting: Weighting,
) -> Algorithm:
    first = np.float32(tau**2 if first_square < 0 else first_square)
    keep, enter = np.float32(beta_1), np.float32(1 - beta_1)

    def server_init(_server: Server, model: Arrays) -> Arrays:
        zeros = moved(model, model)
        squares = {name: np.full_like(array, first) for name, array in zeros.items()}
        return {**model, **under("mean", zeros), **under("square", squares)}

    def server_update(server: Server, state: Arrays, updates: Sequence[Update]) -> Arrays:
        new = server.mean(updates)
        move = moved(new, state)
        mean = {
            name: keep * old + enter * move[name]
            for name, old in from_under("mean", state).items()
        }
        squares = {
            name: square(old, move[name]) for name, old in from_under("square", state).items()
        }
        model = {
            name: state[name] + _step(mean[name], squares[name])
            if name in mean and name not in server.buffers
            else array
            for name, array in new.items()
        }
        return {**model, **under("mean", mean), **under("square", squares)}

    def _step(mean: Array, squares: Array) -> Array:
        return np.float32(server_rate) * mean / (np.sqrt(squares) + np.float32(tau))

    return Algorithm(
        name=name,
        client_update=fedavg(weighting=weighting).client_update,
        server_init=server_init,
        broadcast=model_of,
        server_update=server_update,
    )
