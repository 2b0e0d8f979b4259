"""What an algorithm is: a value made of functions, both halves together.

Server states, client states and what is sent are all named arrays, so that they can be encoded
and stored. What stands before the first dot of a name is the array's part: `base` and `head`
are the model, all others belong to the algorithm. No function here logs, publishes, saves,
reads the clock or changes its inputs. Nothing here needs torch: the server half runs without
it, and the client half gets what it needs from its `Client`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal, Protocol, TypeAlias

import numpy as np
from msgspec import Meta

from common.algorithms.aggregation import Aggregation, combine
from common.arrays import Array, Arrays, parts
from common.config import TrainingSection
from common.data.rebalance import Rebalance
from common.data.rebalance_file import Rebalanced
from common.data.samples import Samples
from common.wire.messages import Stage

if TYPE_CHECKING:
    from torch import Tensor

MODEL = ("base", "head")
EMPTY: Arrays = {}

Predictor: TypeAlias = "Callable[[Tensor], Tensor]"
Extra: TypeAlias = "Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]"
After: TypeAlias = "Callable[[Mapping[str, Tensor], Mapping[str, Tensor]], None]"
Loss: TypeAlias = "Callable[[Net, Tensor, Tensor], Tensor | None]"
Logits: TypeAlias = "Callable[[Net, Tensor], Tensor]"

Weighting: TypeAlias = Annotated[
    Literal["samples", "uniform"],
    Meta(description="Whether clients count by their number of samples, or equally."),
]


class Net(Protocol):
    """Arrays as torch modules: the model, copies of its parts, and single tensors."""

    @property
    def has_norm(self) -> bool:
        """Whether it has running statistics, and so cannot train on a single sample."""

    def __call__(self, inputs: Tensor) -> Tensor:
        """The model's logits: its head on its base."""

    def part(self, name: str) -> Callable[[Tensor], Tensor]:
        """`base`, `head`, or a copy of one of them that the algorithm has declared."""

    def tensor(self, name: str) -> Tensor:
        """One array by its name."""


@dataclass(frozen=True, slots=True, eq=False)
class LocalModel:
    """The result of a local training: all arrays given to it, with new values where trained."""

    arrays: dict[str, Array]
    loss: float
    steps: int


class Client(Protocol):
    """What an algorithm may ask of the client it runs on."""

    @property
    def client_id(self) -> int:
        """The client's id."""

    @property
    def round(self) -> int:
        """The round, counted from 1; a test in it is of the model before the round."""

    @property
    def rounds(self) -> int:
        """How many rounds the experiment has."""

    @property
    def training(self) -> TrainingSection:
        """The experiment's settings of local training."""

    @property
    def learning_rate(self) -> float:
        """The learning rate of this round."""

    @property
    def data(self) -> Samples:
        """The client's training samples."""

    @property
    def samples(self) -> int:
        """How many training samples the client has."""

    @property
    def counts(self) -> Array:
        """How many training samples of each class."""

    @property
    def sizes(self) -> Array:
        """How many training samples each client of the experiment has."""

    @property
    def rebalanced(self) -> Rebalanced:
        """The samples that the algorithm's `rebalance` asks for."""

    def rng(self, purpose: str) -> np.random.Generator:
        """Randomness of this client that is the same in every round."""

    def train(
        self,
        arrays: Arrays,
        *,
        only: Sequence[str] = MODEL,
        samples: Samples | None = None,
        epochs: int | None = None,
        steps: int | None = None,
        settings: TrainingSection | None = None,
        special: Mapping[str, TrainingSection] | None = None,
        loss: Loss | None = None,
        extra: Extra | None = None,
        after: After | None = None,
        purpose: str = "shuffle",
        phase: str | None = None,
    ) -> LocalModel:
        """Train copies of the arrays whose part is in `only`; all others stay as they are.

        By default: cross-entropy of the model on the client's training samples, for
        the epochs or steps of the settings. `special` has settings for single parts.
        `loss(net, inputs, labels)` is another loss (None: skip the batch); `extra(parameters)`
        gives terms to add to the gradients, before momentum; `after(parameters, gradients)`
        is called after every step; `purpose` names the randomness of the shuffles. The
        optimizer starts anew (see `training.optimizer_state`), but continues where the last
        training of the same `phase` in this job ended, if there was one.
        """

    def tensors(self, arrays: Arrays) -> Mapping[str, Tensor]:
        """Copies of arrays as tensors."""

    def predictor(self, arrays: Arrays, logits: Logits | None = None) -> Predictor:
        """A model ready to classify; `logits` replaces the way it computes its logits."""

    def mean_loss(self, arrays: Arrays, samples: Samples) -> float:
        """Mean cross-entropy of a model on some samples."""


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """What a client's training gives: its new state, its update, and its model for stage L2.

    `weights` is how much the update counts, for each of its parts; `values` are single
    numbers of interest, whose mean over the clients is written to the metrics.
    """

    state: Arrays
    arrays: Arrays
    weights: Mapping[str, float]
    loss: float
    steps: int
    personal: Predictor
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """A client's update as the server sees it."""

    client: int
    arrays: Arrays
    weights: Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class Server:
    """What the server half may know: the round it closes, and the federation.

    `participants` of the `clients` among whom the data is divided take part in the experiment.
    `buffers` are the arrays of the model that no training changes by gradients (running
    statistics): server optimizers leave them alone.
    """

    clients: int
    participants: int
    classes: int
    round: int
    rng: Callable[[str], np.random.Generator]
    buffers: frozenset[str] = frozenset()
    aggregation: Aggregation = field(default_factory=Aggregation)
    download: Arrays = field(default_factory=dict)

    def mean(self, updates: Sequence[Update]) -> dict[str, Array]:
        """The weighted mean of the updates, or what the experiment uses instead."""
        # by index: a loop over updates would hold the last one while the next is loaded
        items = (_weighted(updates[at]) for at in range(len(updates)))
        return combine(self.aggregation, items, self.download)


def _weighted(update: Update) -> tuple[Arrays, Mapping[str, float]]:
    return update.arrays, update.weights


def nothing(_client: Client, _download: Arrays) -> Arrays:
    """The first state of clients that keep nothing between rounds."""
    return EMPTY


def model_of(arrays: Arrays) -> Arrays:
    """The model alone, from arrays that may contain more."""
    return parts(arrays, MODEL)


def expect_model(_server: Server, download: Arrays) -> Arrays:
    """An update is a model."""
    return model_of(download)


def start_from(_server: Server, model: Arrays) -> Arrays:
    """The server's first state is the first model."""
    return model


def everything(state: Arrays) -> Arrays:
    """The whole server state goes to the clients."""
    return state


def average(server: Server, _state: Arrays, updates: Sequence[Update]) -> Arrays:
    """The new model is the mean of the updates."""
    return server.mean(updates)


def download_everywhere(
    client: Client, _state: Arrays, download: Arrays
) -> Mapping[Stage, Predictor]:
    """Before its training a client's own model is the global one."""
    model = client.predictor(model_of(download))
    return {"G": model, "L1": model}


def update_of(
    client: Client,
    model: LocalModel,
    weighting: Weighting = "samples",
    *,
    state: Arrays = EMPTY,
    personal: Predictor | None = None,
    values: Mapping[str, float] | None = None,
) -> Trained:
    """The usual end of a client's training: it sends its model, and that is also its own."""
    arrays = model_of(model.arrays)
    weight = float(client.samples) if weighting == "samples" else 1.0
    return Trained(
        state=state,
        arrays=arrays,
        weights=dict.fromkeys(MODEL, weight),
        loss=model.loss,
        steps=model.steps,
        personal=client.predictor(arrays) if personal is None else personal,
        values=values or {},
    )


@dataclass(frozen=True, slots=True)
class Algorithm:
    """Both halves of a federated algorithm; what is not given is as in FedAvg.

    `server_update` gets the updates in ascending order of client id; each is loaded from disk
    when it is accessed. `broadcast` makes the download of all clients from the server's state;
    `private`, if given, makes what one selected client gets in addition. `expects` makes arrays
    with the names, shapes and kinds that an update must have from a download. `stages` gives
    the models tested before a training. `coupled`: a client's new state only counts once the
    server has used its update. `copies` names parts that are built like the base or the head.
    `rebalance` is which rebalanced samples the clients need.
    """

    name: str
    client_update: Callable[[Client, Arrays, Arrays], Trained]
    client_init: Callable[[Client, Arrays], Arrays] = nothing
    stages: Callable[[Client, Arrays, Arrays], Mapping[Stage, Predictor]] = download_everywhere
    server_init: Callable[[Server, Arrays], Arrays] = start_from
    broadcast: Callable[[Arrays], Arrays] = everything
    private: Callable[[Server, Arrays, int], Arrays] | None = None
    expects: Callable[[Server, Arrays], Arrays] = expect_model
    server_update: Callable[[Server, Arrays, Sequence[Update]], Arrays] = average
    global_model: Callable[[Arrays], Arrays] = model_of
    coupled: bool = False
    copies: Mapping[str, Literal["base", "head"]] = field(default_factory=dict)
    rebalance: Rebalance | None = None

    @property
    def stateful(self) -> bool:
        """Whether clients keep anything between rounds."""
        return self.client_init is not nothing
