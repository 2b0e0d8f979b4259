"""PURE: what is added up during a round: counts of correct answers, losses, bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from common.wire.messages import ClientMetrics, Count, Stage
from common.wire.tensors import UpdateMeta

NAMES: dict[Stage, str] = {"G": "accuracy_global", "L1": "accuracy_l1", "L2": "accuracy_l2"}
PERSONAL: tuple[Stage, ...] = ("L1", "L2")
EPSILON = 0.95
MOST_VALUES = 64

Value = float | int | None
ClientCounts: TypeAlias = dict[str, dict[str, tuple[int, int]]]  # of each stage


@dataclass(slots=True)
class Tally:
    """Sums of one round; every client counts once, however often it reports."""

    metrics: dict[int, ClientMetrics] = field(default_factory=dict)
    trained: dict[int, float] = field(default_factory=dict)  # client -> seconds of its training
    bytes_up: int = 0
    bytes_down: int = 0
    joules: dict[int, float] = field(default_factory=dict)

    def count(self, metrics: ClientMetrics) -> None:
        """Take a client's counts."""
        self.metrics.setdefault(metrics.client, metrics)

    def spend(self, client: int, joules: float) -> None:
        """Take the energy of a client's training."""
        self.joules.setdefault(client, joules)

    @property
    def energy_joules(self) -> float | None:
        """The energy of all trainings that was measured; None where no board measures it."""
        return round(sum(self.joules.values()), 3) if self.joules else None

    def accuracies(self, epsilon: float = EPSILON) -> dict[str, Value]:
        """The accuracies that follow from all clients' counts, for each stage.

        `accuracy_*` pools correct answers and samples of all clients; `mean_*` and `union_*`
        are plain means over clients of each one's accuracy, on its own samples and on samples
        of all; `rho_*` is the number of clients whose accuracy is above epsilon.
        """
        found: dict[str, Value] = {
            name: share(self._counts(stage)) for stage, name in NAMES.items()
        }
        for stage in PERSONAL:
            own = [_accuracy(count) for count in self._counts(stage)]
            union = [m.union[stage] for m in self.metrics.values() if stage in m.union]
            name = stage.lower()
            found[f"mean_{name}"] = mean(own)
            found[f"union_{name}"] = mean([_accuracy(count) for count in union])
            found[f"rho_{name}"] = sum(value > epsilon for value in own) if own else None
        found["tested_clients"] = len(self.metrics)
        found["tested_samples"] = sum(_total(m) for m in self.metrics.values())
        return found

    def by_client(self) -> ClientCounts:
        """The counts of every client, as in a line of clients.jsonl."""
        found: ClientCounts = {}
        for client in sorted(self.metrics):
            metrics = self.metrics[client]
            named: dict[str, Count] = {s: metrics.counts[s] for s in sorted(metrics.counts)}
            for stage in sorted(metrics.union):
                named[f"union_{stage}"] = metrics.union[stage]
            found[str(client)] = {
                name: (count.correct, count.total) for name, count in named.items()
            }
        return found

    def _counts(self, stage: Stage) -> list[Count]:
        return [m.counts[stage] for m in self.metrics.values() if stage in m.counts]


def share(counts: list[Count]) -> float | None:
    """Pooled accuracy of some counts."""
    total = sum(count.total for count in counts)
    return sum(count.correct for count in counts) / total if total else None


def mean(values: Sequence[float]) -> float | None:
    """The plain mean; the order of arrival does not matter."""
    return sum(sorted(values)) / len(values) if values else None


def _accuracy(count: Count) -> float:
    return count.correct / count.total


def _total(metrics: ClientMetrics) -> int:
    return max((count.total for count in metrics.counts.values()), default=0)


def mean_loss(metas: list[UpdateMeta]) -> float | None:
    """Mean training loss of the updates, by their samples."""
    known = [(meta.loss, meta.samples) for meta in metas if meta.loss is not None]
    samples = sum(n for _, n in known)
    return sum(loss * n for loss, n in known) / samples if samples else None


def mean_values(metas: list[UpdateMeta]) -> dict[str, float]:
    """Mean over the updates of every number that they report; the commonest if many."""
    known = Counter(name for meta in metas for name in meta.values)
    names = sorted(sorted(known, key=lambda name: (-known[name], name))[:MOST_VALUES])
    reported = {name: [m.values[name] for m in metas if name in m.values] for name in names}
    return {name: sum(numbers) / len(numbers) for name, numbers in reported.items()}
