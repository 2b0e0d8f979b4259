"""PURE: whether an update or a client's tests can be used; a board may send anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from common.arrays import Arrays, part_of
from common.errors import ProtocolError
from common.tasks.task import Task
from common.wire.messages import ClientMetrics
from common.wire.tensors import SumMeta, UpdateMeta, check_arrays


@dataclass(slots=True)
class Checks:
    """What is known of a run's clients, and what their messages must agree with.

    `most_samples` is the size of the dataset: no client can have more.
    """

    expected: Arrays
    most_samples: int
    most_weight: Callable[[int], float]
    task: Task
    move: Callable[[Arrays], None] | None = None  # refuses one that is too long
    samples: dict[int, int] = field(default_factory=dict)
    totals: dict[int, Mapping[str, int]] = field(default_factory=dict)

    def check_update(self, arrays: Arrays, meta: UpdateMeta) -> None:
        """Refuse an update that would do harm; ProtocolError with the reason."""
        check_arrays(arrays, self.expected)
        self._check_claims(meta)
        if self.move is not None:
            self.move(arrays)

    def check_sum(self, meta: SumMeta) -> None:
        """Refuse the sum of several updates by what it says of each."""
        clients = [member.client for member in meta.members]
        if clients != sorted(set(clients)) or clients[0] != meta.client:
            raise ProtocolError("the clients of a sum are not in ascending order")
        for each in meta.metas().values():
            self._check_claims(each)

    def _check_claims(self, meta: UpdateMeta) -> None:
        check_weights(meta, self.expected, self.most_samples, self.most_weight)
        known = self.samples.setdefault(meta.client, meta.samples)
        if meta.samples != known:
            raise ProtocolError(f"{meta.samples} samples; the client had {known} before")

    def check_tests(self, metrics: ClientMetrics) -> None:
        """Refuse sums that no test can have, of too many samples, or of others than before."""
        for test in (*metrics.own.values(), *metrics.union.values()):
            if test.samples > self.most_samples:
                raise ProtocolError(
                    f"{test.samples} test samples; the dataset has {self.most_samples} in all"
                )
        for test in metrics.own.values():
            self.task.check(test)
        for test in metrics.union.values():
            self.task.check(test, union=True)
        totals: dict[str, int] = {name: test.samples for name, test in metrics.own.items()}
        totals |= {f"union {name}": test.samples for name, test in metrics.union.items()}
        known = self.totals.setdefault(metrics.client, totals)
        for stage in totals.keys() & known.keys():
            if totals[stage] != known[stage]:
                raise ProtocolError(
                    f"{totals[stage]} test samples; the client had {known[stage]} before"
                )


def check_weights(
    meta: UpdateMeta, like: Arrays, most_samples: int, most_weight: Callable[[int], float]
) -> None:
    """Refuse an update that counts for more than a client may."""
    if meta.samples > most_samples:
        raise ProtocolError(f"{meta.samples} samples; the dataset has {most_samples} in all")
    most = most_weight(meta.samples)
    for part, weight in meta.weights.items():
        if not 0 < weight <= most:
            raise ProtocolError(
                f"weight {weight:g} of {part[:40]!r}; expected more than 0 and at most "
                f"{most:g}, for {meta.samples} samples"
            )
    if not {part_of(name) for name in like} <= meta.weights.keys():
        raise ProtocolError("a part of the model has no weight")
