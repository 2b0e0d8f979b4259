"""The updates of the open round of a secured run: only their sum is ever opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from common.arrays import Array, Arrays, part_of
from common.errors import FedbedError, ProtocolError
from common.privacy.exact import SUMS, ExactSum, Scale, sums_of
from common.wire.tensors import MaskedMeta, UpdateMeta, decode_tensors
from fl_server.run.server_half import Reported, RoundUpdates
from fl_server.run.updates.files import Kind
from fl_server.run.updates.secure_journal import Opening


class MaskedSum:
    """Adds masked updates while they arrive; each is uniform noise to us.

    An update that came before a restart is read when the round closes.
    """

    def __init__(
        self,
        load: Callable[[int], bytes],
        scale: Scale,
        expected: Arrays,
        opening: Callable[[], Opening],
    ) -> None:
        self._load = load
        self._scale = scale
        self._opening = opening
        parts = {part_of(name) for name in expected}
        self._shapes = {name: array.shape for name, array in expected.items()}
        self._shapes[SUMS] = (sums_of(len(parts)),)
        self._sum = ExactSum(scale)

    def clear(self) -> None:
        """The round is over."""
        self._sum = ExactSum(self._scale)

    def open(self, selected: Sequence[int]) -> None:
        """Whose updates will come makes no difference."""

    def restore(self, groups: Mapping[int, tuple[int, ...]]) -> None:
        """Sites send no sums of masked updates."""

    def take(self, client: int, blob: bytes) -> Kind:
        """Add an update; ProtocolError if it has not the form of one: more cannot be known."""
        self._sum.add([client], self._integers(blob))
        return "client"

    def _integers(self, blob: bytes) -> dict[str, Array]:
        arrays, _ = decode_tensors(blob, MaskedMeta)
        shapes = {name: array.shape for name, array in arrays.items()}
        kinds = {array.dtype for array in arrays.values()}
        if shapes != self._shapes or kinds != {np.dtype(np.int64)}:
            raise ProtocolError("not the masked integers of an update of this model")
        return {name: array.view(np.uint64) for name, array in arrays.items()}

    def updates(self, clients: Sequence[int], like: Arrays) -> RoundUpdates:
        """The mean of these clients' updates, and what they report, without any single one."""
        if not clients:
            return RoundUpdates(_refuse, (), reported=Reported(0, None, {}))
        if not self._sum.clients <= {*clients}:
            self.clear()
        for client in sorted({*clients} - self._sum.clients):
            self._sum.add([client], self._integers(self._load(client)))
        opened = ExactSum(self._scale)
        opened.add(clients, self._sum.total)
        self._open(opened)
        found = opened.result(like)
        reported = Reported(found.samples, found.loss, {})
        return RoundUpdates(_refuse, clients, mean=found.arrays, reported=reported)

    def _open(self, total: ExactSum) -> None:
        from common.privacy.secure import unmask  # needs a package that others need not have

        opening = self._opening()
        try:
            unmask(
                total.total,
                where=opening.where,
                peers=opening.peers,
                threshold=opening.threshold,
                survivors=opening.survivors,
                answers=opening.answers,
            )
        except ProtocolError as error:
            raise FedbedError(
                f"the sum of {opening.where} cannot be opened: {error}; start a new run "
                "without the boards that you do not trust (selection.participants)"
            ) from error
        if not total.is_possible():
            raise FedbedError(
                f"the masks of {opening.where} do not cancel: the update of a client was not "
                "masked as the others expected, and whose cannot be known; start a new run "
                "without the boards that you do not trust (selection.participants)"
            )


def _refuse(client: int) -> tuple[dict[str, Array], UpdateMeta]:
    raise FedbedError(
        f"privacy.secure hides the single update of client {client}, which the server half of "
        "this algorithm looks at; it works without privacy.secure only"
    )
