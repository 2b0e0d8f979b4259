"""What an algorithm is: a value made of functions, both halves together.

Server states, client states and what travels are all named arrays, so that the codec can send
them and the stores can keep them. No function here logs, publishes, saves, asks the time or
changes its inputs. Nothing here needs torch: the server half runs without it, and the client
half gets what it needs of it from its `Client`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from common.arrays import Array, Arrays
from common.messages import Stage
from common.rebalance import Rebalance

if TYPE_CHECKING:
    from torch import Tensor

Predictor: TypeAlias = "Callable[[Tensor], Tensor]"
Extra: TypeAlias = "Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]"


@dataclass(frozen=True, slots=True, eq=False)
class LocalModel:
    """What a local training made."""

    arrays: dict[str, Array]
    loss: float
    steps: int


class Client(Protocol):
    """What an algorithm may ask of the client it runs on."""

    @property
    def samples(self) -> int:
        """How many training samples the client has."""

    @property
    def counts(self) -> Array:
        """How many training samples of each class."""

    def train(
        self,
        arrays: Arrays,
        *,
        only: Sequence[str] = ("base", "head"),
        epochs: int | None = None,
        extra: Extra | None = None,
        purpose: str = "shuffle",
    ) -> LocalModel:
        """Train a copy of a model on the client's samples; `purpose` names its randomness."""

    def predictor(self, arrays: Arrays) -> Predictor:
        """A model, ready to classify."""


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """What a client's turn gives: its new state, its update, and its own model for stage L2.

    `weights` says how much the update counts, for each part of the model.
    """

    state: Arrays
    arrays: Arrays
    weights: Mapping[str, float]
    loss: float
    steps: int
    personal: Predictor


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """A client's update as the server sees it."""

    client: int
    arrays: Arrays
    weights: Mapping[str, float]


def nothing(_client: Client, _download: Arrays) -> Arrays:
    """The first state of clients that keep nothing between rounds."""
    return {}


@dataclass(frozen=True, slots=True)
class Algorithm:
    """Both halves of a federated algorithm.

    `server_update` gets the updates in ascending order of client id; each is loaded from
    disk when it is looked at. `stages` gives the models tested before a training.
    `coupled`: a client's new state only counts once the server has used its update.
    `rebalance`: clients also keep a rebalanced set of their samples, made like this.
    """

    name: str
    server_init: Callable[[Arrays], Arrays]
    broadcast: Callable[[Arrays], Arrays]
    global_model: Callable[[Arrays], Arrays]
    client_init: Callable[[Client, Arrays], Arrays]
    client_update: Callable[[Client, Arrays, Arrays], Trained]
    server_update: Callable[[Arrays, Sequence[Update]], Arrays]
    stages: Callable[[Client, Arrays, Arrays], Mapping[Stage, Predictor]]
    coupled: bool = False
    rebalance: Rebalance | None = None

    @property
    def stateful(self) -> bool:
        """Whether clients keep anything between rounds."""
        return self.client_init is not nothing
