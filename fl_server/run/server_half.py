"""The server half of an algorithm, called so that a mistake of a user is one sentence, and the
updates that it gets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, overload

import numpy as np

from common.algorithms.base import Algorithm, Server, Update
from common.arrays import Array, Arrays
from common.errors import FedbedError
from common.plugins import explain, is_users, names_users
from common.wire.tensors import UpdateMeta
from fl_server.run.metrics.tally import mean_loss, mean_values

log = logging.getLogger(__name__)

Load: TypeAlias = Callable[[int], tuple[dict[str, Array], UpdateMeta]]


@dataclass(frozen=True, slots=True)
class Reported:
    """What the clients of a round report together: samples, and means of loss and values."""

    samples: int
    loss: float | None
    values: Mapping[str, float]


class ServerHalf:
    """What a run's algorithm does on the server; checks what a user's own functions return."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self.has_private = algorithm.private is not None
        self.needs_each = algorithm.needs_each

    def server_init(self, server: Server, model: Arrays) -> Arrays:
        """The first state."""
        return self._call(self._algorithm.server_init, server, model)

    def broadcast(self, state: Arrays) -> Arrays:
        """The download of all clients."""
        return self._call(self._algorithm.broadcast, state)

    def private(self, server: Server, state: Arrays, client: int) -> Arrays:
        """What one client gets besides."""
        assert self._algorithm.private is not None, "asked only if there is one"
        return self._call(self._algorithm.private, server, state, client)

    def expects(self, server: Server, download: Arrays) -> Arrays:
        """Shape and kind of the arrays that an update must have, without their memory."""
        arrays = self._call(self._algorithm.expects, server, download)
        return {
            name: np.broadcast_to(np.zeros((), array.dtype), array.shape)
            for name, array in arrays.items()
        }

    def server_update(self, server: Server, state: Arrays, updates: Sequence[Update]) -> Arrays:
        """The next state, if clients can use what it broadcasts."""
        function = self._algorithm.server_update
        new = self._call(function, server, state, updates)
        if is_users(function):
            self._check_alike(function, self.broadcast(state), self.broadcast(new))
        return new

    def global_model(self, state: Arrays) -> Arrays:
        """The model that the run ends with."""
        return self._call(self._algorithm.global_model, state)

    def most_weight(self, samples: int) -> float:
        """The largest weight of an update."""
        function = self._algorithm.most_weight
        try:
            return float(function(samples))
        except Exception as error:
            raise self._explained(function, error) from error

    def _call(self, function: Callable[..., object], *arguments: object) -> Arrays:
        try:
            return _checked(function(*arguments))
        except FedbedError:
            raise
        except Exception as error:
            raise self._explained(function, error) from error

    def _check_alike(self, function: Callable[..., object], old: Arrays, new: Arrays) -> None:
        """Clients expect the arrays of the first download in every round."""
        before, after = _outlines(old), _outlines(new)
        for name in sorted(before.keys() | after.keys()):
            was, now = before.get(name, "nothing"), after.get(name, "nothing")
            if was != now:
                error = ValueError(f"{name} was {was}, and is {now} now")
                raise self._explained(function, error)

    def _explained(self, function: Callable[..., object], error: Exception) -> Exception:
        """A user's mistake as a sentence; a mistake of ours as it is."""
        if not (is_users(function) or names_users(error)):
            return error
        name = getattr(function, "__name__", "a function")
        text = f"{name} of {self._algorithm.name}: {explain(error, function)}"
        log.error("%s", text, exc_info=error)
        return FedbedError(f"{text}; correct it and resume the run")


def _checked(result: object) -> Arrays:
    if not isinstance(result, Mapping):
        raise TypeError(f"returned {type(result).__name__}; expected arrays by name")
    for name, array in result.items():
        if not isinstance(name, str) or not isinstance(array, np.ndarray | np.generic):
            raise TypeError(f"returned {type(array).__name__} as {name!r}; expected an array")
    return result


def _outlines(arrays: Arrays) -> dict[str, str]:
    return {name: f"{array.dtype} {array.shape}" for name, array in arrays.items()}


class RoundUpdates(Sequence[Update]):
    """The updates of a round in ascending order of client id, loaded one at a time.

    What is known of them already need not be loaded.
    """

    def __init__(
        self,
        load: Load,
        clients: Sequence[int],
        *,
        metas: Mapping[int, UpdateMeta] | None = None,
        mean: dict[str, Array] | None = None,
        reported: Reported | None = None,
    ) -> None:
        self._load = load
        self._clients = sorted(clients)
        self._metas: dict[int, UpdateMeta] = dict(metas or {})
        self._mean = mean
        self._reported = reported

    def mean(self) -> dict[str, Array] | None:
        """The mean, if the updates were added up while they arrived."""
        return self._mean

    @property
    def metas(self) -> list[UpdateMeta]:
        """Metadata of all updates."""
        for at, client in enumerate(self._clients):
            if client not in self._metas:  # an algorithm need not look at all of them
                self[at]
        return [self._metas[client] for client in self._clients]

    def told(self, clients: Sequence[int]) -> Iterator[tuple[int, int, float | None]]:
        """Samples and loss of every client, as far as each has told them itself."""
        for client in clients:
            meta = self._metas.get(client)
            yield (client, 0, None) if meta is None else (client, meta.samples, meta.loss)

    @property
    def rounds(self) -> list[int]:
        """The rounds whose models the clients have trained."""
        return [meta.round for meta in self.metas]

    @property
    def reported(self) -> Reported:
        """What all clients report together."""
        if self._reported is not None:
            return self._reported
        metas = self.metas
        samples = sum(meta.samples for meta in metas)
        return Reported(samples, mean_loss(metas), mean_values(metas))

    def __len__(self) -> int:
        return len(self._clients)

    @overload
    def __getitem__(self, index: int) -> Update: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Update]: ...
    def __getitem__(self, index: int | slice) -> Update | Sequence[Update]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        client = self._clients[index]
        arrays, meta = self._load(client)
        self._metas[client] = meta
        return Update(client, arrays, meta.weights)

    def __iter__(self) -> Iterator[Update]:
        return (self[index] for index in range(len(self)))
