"""The updates of the open round: small ones stay in memory, and exact sums grow with each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from common.arrays import Array, Arrays
from common.config import Experiment
from common.experiment.sums import scale_of
from common.privacy.available import check_available
from common.privacy.exact import ExactSum, Scale, fixed
from common.wire.assembly import SMALL
from common.wire.messages import Encoding
from common.wire.tensors import UpdateMeta, decode_tensors
from fl_server.run.checks import Checks
from fl_server.run.masked import MaskedSum
from fl_server.run.secure_journal import Opening
from fl_server.run.server_half import Reported, RoundUpdates

RECENT_BYTES = 48 * 1024**2  # of small updates that aggregation need not read again

Decoded: TypeAlias = tuple[dict[str, Array], UpdateMeta]


class Gathered:
    """What has arrived in the open round; `load` reads a file of it.

    With a scale updates are added up at once, and need not be read again. An update that came
    before a restart is read when the round closes. `pooled`: what clients report is added up
    in the same way, as in a secured run.
    """

    def __init__(
        self,
        load: Callable[[int], bytes],
        scale: Scale | None,
        checks: Checks,
        encoding: Encoding,
        *,
        pooled: bool = False,
    ) -> None:
        self._load_file = load
        self._scale = scale
        self._checks = checks
        self._encoding = encoding
        self._pooled = pooled
        self._sum: ExactSum | None = None
        self._recent: dict[int, Decoded] = {}
        self._metas: dict[int, UpdateMeta] = {}

    def clear(self) -> None:
        """The round is over."""
        self._sum = None
        self._recent.clear()
        self._metas.clear()

    def take(self, client: int, blob: bytes) -> None:
        """Take an update; ProtocolError if it cannot be used, or no exact sum can hold it."""
        arrays, meta = decode_tensors(blob, UpdateMeta, self._encoding)
        self._checks.check_update(arrays, meta)
        if self._scale is not None:
            integers = _fixed(self._scale, arrays, meta)
            self._sum = self._sum or ExactSum(self._scale)
            self._sum.add([client], integers)
            self._metas[client] = meta
            return
        held = sum(a.nbytes for kept, _ in self._recent.values() for a in kept.values())
        if len(blob) <= SMALL and held + len(blob) <= RECENT_BYTES:
            self._recent[client] = (arrays, meta)

    def updates(self, clients: Sequence[int], like: Arrays) -> RoundUpdates:
        """The updates of these clients, and their mean as far as it is known."""
        if self._scale is None:
            return RoundUpdates(self._load, clients)
        if self._sum is not None and not self._sum.clients <= {*clients}:
            self._sum, self._metas = None, {}  # somebody is in it who does not count
        total = self._sum or ExactSum(self._scale)
        for client in sorted({*clients} - total.clients):
            arrays, self._metas[client] = self._load(client)
            total.add([client], _fixed(self._scale, arrays, self._metas[client]))
        self._sum = total
        if not clients:
            return RoundUpdates(self._load, clients, metas=self._metas, mean={})
        found = total.result(like)
        reported = Reported(found.samples, found.loss, {}) if self._pooled else None
        return RoundUpdates(
            self._load, clients, metas=self._metas, mean=found.arrays, reported=reported
        )

    def _load(self, client: int) -> Decoded:
        if client in self._recent:
            return self._recent[client]
        return decode_tensors(self._load_file(client), UpdateMeta, self._encoding)


def make_gathered(
    experiment: Experiment,
    checks: Checks,
    load: Callable[[int], bytes],
    opening: Callable[[], Opening] | None,
) -> Gathered | MaskedSum:
    """What takes the updates of a run; `opening` opens the sums of a secured one."""
    scale = scale_of(experiment)
    if opening is not None and scale is not None:
        check_available()
        return MaskedSum(load, scale, checks.expected, opening)
    simple = experiment.aggregation.clip_norm == 0  # updates count as they come
    return Gathered(
        load,
        scale if simple else None,
        checks,
        experiment.communication.encoding,
        pooled=experiment.privacy.secure,
    )


def _fixed(scale: Scale, arrays: Arrays, meta: UpdateMeta) -> dict[str, Array]:
    return fixed(scale, arrays, meta.weights, samples=meta.samples, loss=meta.loss)
