"""The mean of a round's updates, added up beside the coordinator's loop while others arrive."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from common.arrays import Array, Sums
from common.side_thread import Later, beside
from common.wire.tensors import UpdateMeta


class RunningMean:
    """Sums in floating point depend on their order, which is the ascending order of clients.

    So an update is added as soon as those of all selected clients before it have been.
    """

    def __init__(self) -> None:
        self._sums = Sums()
        self._waited_for: list[int] = []
        self._added: list[int] = []
        self._work: list[Later[None]] = []

    def open(self, selected: Sequence[int]) -> None:
        """Updates of these clients will come."""
        self._waited_for = sorted({*selected} - {*self._added})

    @property
    def next(self) -> int | None:
        """Whose update can be added now."""
        return self._waited_for[0] if self._waited_for else None

    def add(self, arrays: dict[str, Array], meta: UpdateMeta) -> None:
        """Add the update of that client."""
        self._added.append(self._waited_for.pop(0))
        self._work.append(beside(self._sums.add, arrays, meta.weights))

    def result(
        self, clients: Sequence[int], load: Callable[[int], tuple[dict[str, Array], UpdateMeta]]
    ) -> dict[str, Array] | None:
        """The mean of these clients' updates; what was not added yet is loaded.

        None if nothing was added yet, or something that does not belong to it.
        """
        ordered, count = sorted(clients), len(self._added)
        if not count or ordered[:count] != self._added:
            return None
        for work in self._work:
            work.result()
        for client in ordered[count:]:
            arrays, meta = load(client)
            self._sums.add(arrays, meta.weights)
        return self._sums.means()
