"""What an algorithm is: a value made of functions, both halves together.

Server states, client states and what is sent are all named arrays, so that they can be encoded
and stored. What stands before the first dot of a name is the array's part: `base` and `head`
are the model, all others belong to the algorithm. No function here logs, publishes, saves,
reads the clock or changes its inputs. Nothing here needs torch: the server half runs without
it, and the client half gets what it needs from its `Client` (`client.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from msgspec import Meta

from common.algorithms.aggregation import Aggregation, combine
from common.algorithms.client import MODEL as MODEL
from common.algorithms.client import After as After
from common.algorithms.client import Batch as Batch
from common.algorithms.client import Client as Client
from common.algorithms.client import Extra as Extra
from common.algorithms.client import LocalModel as LocalModel
from common.algorithms.client import Logits as Logits
from common.algorithms.client import Loss as Loss
from common.algorithms.client import Net as Net
from common.algorithms.client import Predictor as Predictor
from common.algorithms.client import rows as rows
from common.arrays import Array, Arrays, parts
from common.config.task import KINDS as KINDS
from common.config.task import OF_ONE_CLASS as OF_ONE_CLASS
from common.config.task import Kind as Kind
from common.data.rebalance import Rebalance
from common.privacy.exact import Scale
from common.wire.messages import Stage

EMPTY: Arrays = {}

Weighting: TypeAlias = Annotated[
    Literal["samples", "uniform"],
    Meta(description="Whether clients count by their number of samples, or equally."),
]


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


@runtime_checkable
class AddedUp(Protocol):
    """Updates that may have been added up while they arrived."""

    def mean(self) -> dict[str, Array] | None:
        """Their mean, if it is known already."""


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
    scale: Scale | None = None  # of exact sums
    release: Callable[[dict[str, Array], int], dict[str, Array]] | None = None

    def mean(self, updates: Sequence[Update]) -> dict[str, Array]:
        """The weighted mean of the updates, or what the experiment uses instead.

        `release`, if there is one, makes what may be known of the mean of so many updates.
        """
        mean = self._mean(updates)
        return mean if self.release is None else self.release(mean, len(updates))

    def _mean(self, updates: Sequence[Update]) -> dict[str, Array]:
        if isinstance(updates, AddedUp) and (known := updates.mean()) is not None:
            return known
        # by index: a loop over updates would hold the last one while the next is loaded
        items = (_weighted(updates[at]) for at in range(len(updates)))
        return combine(self.aggregation, items, self.download, self.scale)


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


def by_samples(samples: int) -> float:
    """The largest weight of an update where clients count by their samples, or all the same."""
    return max(1.0, float(samples))


@dataclass(frozen=True, slots=True)
class Algorithm:
    """Both halves of a federated algorithm; what is not given is as in FedAvg.

    `server_update` gets the updates in ascending order of client id; each is loaded from disk
    when it is accessed. `broadcast` makes the download of all clients from the server's state;
    `private`, if given, makes what one selected client gets in addition. `expects` makes arrays
    with the names, shapes and kinds that an update must have from a download. `stages` gives
    the models tested before a training. `coupled`: a client's new state only counts once the
    server has used its update. `most_weight` is the largest weight that an update of a client
    with so many samples may have: heavier ones are rejected. `copies` names parts that are
    built like the base or the head. `splits`: it treats the model's head by itself.
    `rebalance` is which rebalanced samples the clients need. `tasks` are the kinds of tasks
    that it can do: some need samples of one class each. `needs_each`: the server half looks at
    single updates, not only at `server.mean` of all and their number.
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
    most_weight: Callable[[int], float] = by_samples
    copies: Mapping[str, Literal["base", "head"]] = field(default_factory=dict)
    rebalance: Rebalance | None = None
    tasks: tuple[Kind, ...] = KINDS
    splits: bool = False
    needs_each: bool = False

    @property
    def stateful(self) -> bool:
        """Whether clients keep anything between rounds."""
        return self.client_init is not nothing
