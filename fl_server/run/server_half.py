"""The server half of an algorithm, called so that a mistake in a user's own is one sentence."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from common.algorithms.base import Algorithm, Server, Update
from common.arrays import Arrays
from common.errors import FedbedError
from common.plugins import explain, is_users, names_users

log = logging.getLogger(__name__)


class ServerHalf:
    """What a run's algorithm does on the server; checks what a user's own functions return."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self.has_private = algorithm.private is not None

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
        """Arrays such as an update must have."""
        return self._call(self._algorithm.expects, server, download)

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
