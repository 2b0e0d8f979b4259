"""What takes the updates of the open round: of clients, sums of several, masked ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from common.arrays import Array, Arrays
from common.config import Experiment
from common.experiment.sums import scale_of
from common.privacy.available import check_available
from common.wire.tensors import UpdateMeta, decode_tensors, is_sum
from fl_server.run.checks import Checks
from fl_server.run.server_half import RoundUpdates
from fl_server.run.updates.files import Kind
from fl_server.run.updates.masked import MaskedSum
from fl_server.run.updates.open_updates import DecodedSum, OpenUpdates
from fl_server.run.updates.secure_journal import Opening
from fl_server.run.updates.site_sums import SiteSums

Fresh: TypeAlias = Callable[[dict[str, Array], UpdateMeta], dict[str, Array]]


class Files(Protocol):
    """The updates of the open round on disk."""

    def __call__(self, client: int, kind: Kind = "client") -> bytes:
        """One of them."""


class Incoming(Protocol):
    """What takes the updates of the open round."""

    def take(self, client: int, blob: bytes) -> Kind:
        """Take an update, and say what it is; ProtocolError if it cannot be used."""

    def open(self, selected: Sequence[int]) -> None:
        """A round begins, or goes on with more clients."""

    def restore(self, groups: Mapping[int, tuple[int, ...]]) -> None:
        """The sums of several clients that are on disk after a restart."""

    def updates(self, clients: Sequence[int], like: Arrays) -> RoundUpdates:
        """The updates of these clients, and their mean as far as it is known."""

    def clear(self) -> None:
        """The round is over."""


class PlainUpdates:
    """Updates that the coordinator can look at, one by one or as sums of sites."""

    def __init__(
        self,
        experiment: Experiment,
        checks: Checks,
        load: Files,
        fresh: Fresh,
        *,
        needs_each: bool,
    ) -> None:
        simple = experiment.aggregation.clip_norm == 0  # updates count as they come
        scale = scale_of(experiment) if simple else None
        self._file = load
        self._fresh = fresh
        self._checks = checks
        self._encoding = experiment.communication.encoding
        each = needs_each or experiment.selection.extra > 0 or experiment.aggregation.buffer > 0
        self._sums = SiteSums(checks, scale, needs_each=each)
        pooled = experiment.privacy.secure
        self._open_updates = OpenUpdates(
            self._read,
            scale,
            self._read_sum,
            in_order=simple and experiment.aggregation.rule == "mean" and not needs_each,
            pooled=pooled,
        )
        self.open = self._open_updates.open
        self.restore = self._open_updates.restore
        self.updates = self._open_updates.updates
        self.clear = self._open_updates.clear

    def take(self, client: int, blob: bytes) -> Kind:
        """Take an update, or a sum; ProtocolError if it cannot be used."""
        if is_sum(blob):
            self._open_updates.add_sum(*self._sums.decode(blob))
            return "sum"
        arrays, meta = decode_tensors(blob, UpdateMeta, self._encoding)
        self._checks.check_update(arrays, meta)
        self._open_updates.add(client, self._fresh(arrays, meta), meta, len(blob))
        return "client"

    def _read(self, client: int) -> tuple[dict[str, Array], UpdateMeta]:
        arrays, meta = decode_tensors(self._file(client), UpdateMeta, self._encoding)
        return self._fresh(arrays, meta), meta

    def _read_sum(self, client: int) -> DecodedSum:
        return self._sums.decode(self._file(client, "sum"))


def make_incoming(
    experiment: Experiment,
    checks: Checks,
    load: Files,
    fresh: Fresh,
    *,
    needs_each: bool,
    opening: Callable[[], Opening] | None,
) -> Incoming:
    """What takes the updates of a run; `opening` opens the sums of a secured one."""
    scale = scale_of(experiment)
    if opening is None or scale is None:
        return PlainUpdates(experiment, checks, load, fresh, needs_each=needs_each)
    check_available()
    return MaskedSum(load, scale, checks.expected, opening)
