"""The updates of a round as an algorithm gets them: in order, one at a time in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, overload

from common.algorithms.base import Update
from common.arrays import Array
from common.wire.tensors import UpdateMeta

Load: TypeAlias = Callable[[int], tuple[dict[str, Array], UpdateMeta]]


class RoundUpdates(Sequence[Update]):
    """The updates of a round in ascending order of client id, loaded one at a time."""

    def __init__(self, load: Load, clients: Sequence[int]) -> None:
        self._load = load
        self._clients = sorted(clients)
        self._metas: dict[int, UpdateMeta] = {}

    @property
    def metas(self) -> list[UpdateMeta]:
        """Metadata of all updates."""
        for at, client in enumerate(self._clients):
            if client not in self._metas:  # an algorithm need not look at all of them
                self[at]
        return [self._metas[client] for client in self._clients]

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
