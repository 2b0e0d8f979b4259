"""The updates of the open round: small ones stay in memory until they are added up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from common.arrays import Array, Arrays
from common.privacy.exact import ExactSum, Scale, fixed
from common.wire.assembly import SMALL
from common.wire.tensors import SumMeta, UpdateMeta
from fl_server.run.server_half import Reported, RoundUpdates
from fl_server.run.updates.running_mean import RunningMean

RECENT_BYTES = 48 * 1024**2  # of small updates that aggregation need not read again

Decoded: TypeAlias = tuple[dict[str, Array], UpdateMeta]
DecodedSum: TypeAlias = tuple[dict[str, Array], SumMeta]


class OpenUpdates:
    """What has arrived in the open round.

    With a scale updates are added up at once, without one in the order of clients (`in_order`,
    if the mean is wanted at all), and need not be read again. What came before a restart is
    read when the round closes. The sum of several clients is one item. `pooled`: what clients
    report is added up in the same way, as in a secured run.
    """

    def __init__(
        self,
        load: Callable[[int], Decoded],
        scale: Scale | None,
        load_sum: Callable[[int], DecodedSum] | None = None,
        *,
        in_order: bool = False,
        pooled: bool = False,
    ) -> None:
        self._load_file = load
        self._load_sum = load_sum
        self._scale = scale
        self._in_order = in_order
        self._pooled = pooled
        self._mean = RunningMean()
        self._sum: ExactSum | None = None
        self._groups: dict[int, tuple[int, ...]] = {}  # by their lowest client
        self._recent: dict[int, Decoded] = {}
        self._metas: dict[int, UpdateMeta] = {}

    def open(self, selected: Sequence[int]) -> None:
        """A round begins, or goes on with more clients."""
        if self._in_order and self._scale is None:
            self._mean.open(selected)

    def clear(self) -> None:
        """The round is over."""
        self._sum = None
        self._mean = RunningMean()
        self._groups.clear()
        self._recent.clear()
        self._metas.clear()

    def restore(self, groups: Mapping[int, tuple[int, ...]]) -> None:
        """The sums of several clients that are on disk after a restart."""
        self._groups.update(groups)

    def add(self, client: int, arrays: dict[str, Array], meta: UpdateMeta, size: int) -> None:
        """Take an update that can be used; ProtocolError if no exact sum can hold it."""
        if self._scale is not None:
            integers = self._fixed(self._scale, arrays, meta)
            self._sum = self._sum or ExactSum(self._scale)
            self._sum.add([client], integers)
            self._metas[client] = meta
            return
        held = sum(a.nbytes for kept, _ in self._recent.values() for a in kept.values())
        if size <= SMALL and held + size <= RECENT_BYTES:
            self._recent[client] = (arrays, meta)
        while self._mean.next in self._recent:
            self._metas[self._mean.next] = self._recent[self._mean.next][1]
            self._mean.add(*self._recent.pop(self._mean.next))

    def add_sum(self, integers: dict[str, Array], meta: SumMeta) -> None:
        """Take the sum of several updates."""
        assert self._scale is not None, "asked only where sums are exact"
        self._sum = self._sum or ExactSum(self._scale)
        self._add_group(self._sum, integers, meta)

    def _add_group(self, total: ExactSum, integers: dict[str, Array], meta: SumMeta) -> None:
        metas = meta.metas()
        total.add([*metas], integers)
        self._groups[meta.client] = tuple(metas)
        self._metas |= metas

    def total(self, clients: Sequence[int]) -> tuple[ExactSum, Mapping[int, UpdateMeta]]:
        """The exact sum of these clients' updates, and their metadata."""
        assert self._scale is not None, "asked only where sums are exact"
        if self._sum is not None and not self._sum.clients <= {*clients}:
            self._sum, self._metas = None, {}  # somebody is in it who does not count
        total = self._sum or ExactSum(self._scale)
        for client, members in self._groups.items():
            if {*members} <= {*clients} - total.clients and self._load_sum is not None:
                self._add_group(total, *self._load_sum(client))
        for client in sorted({*clients} - total.clients):
            arrays, self._metas[client] = self._load(client)
            total.add([client], self._fixed(self._scale, arrays, self._metas[client]))
        self._sum = total
        return total, self._metas

    def updates(self, clients: Sequence[int], like: Arrays) -> RoundUpdates:
        """The updates of these clients, and their mean as far as it is known."""
        if self._scale is None:
            mean = self._mean.result(clients, self._load)
            return RoundUpdates(self._load, clients, metas=self._metas, mean=mean)
        total, metas = self.total(clients)
        if not clients:
            return RoundUpdates(self._load, clients, metas=metas, mean={})
        found = total.result(like)
        reported = Reported(found.samples, found.loss, {}) if self._pooled else None
        return RoundUpdates(
            self._load, clients, metas=metas, mean=found.arrays, reported=reported
        )

    def _fixed(self, scale: Scale, arrays: Arrays, meta: UpdateMeta) -> dict[str, Array]:
        if not self._pooled:
            return fixed(scale, arrays, meta.weights)
        return fixed(scale, arrays, meta.weights, samples=meta.samples, loss=meta.loss)

    def _load(self, client: int) -> Decoded:
        return self._recent[client] if client in self._recent else self._load_file(client)
