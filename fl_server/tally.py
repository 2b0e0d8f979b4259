"""What is added up during a round: counts of correct answers, losses, bytes; pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from common.codec import UpdateMeta
from common.messages import ClientMetrics, Count, Stage

NAMES: dict[Stage, str] = {"G": "accuracy_global", "L1": "accuracy_l1", "L2": "accuracy_l2"}


@dataclass(slots=True)
class Tally:
    """Sums of one round; every client counts once, however often it reports."""

    metrics: dict[int, ClientMetrics] = field(default_factory=dict)
    bytes_up: int = 0
    bytes_down: int = 0

    def count(self, metrics: ClientMetrics) -> None:
        """Take a client's counts."""
        self.metrics.setdefault(metrics.client, metrics)

    def accuracies(self) -> dict[str, float | int | None]:
        """Correct answers of all clients over test samples of all clients, for each stage."""
        found: dict[str, float | int | None] = {}
        for stage, name in NAMES.items():
            counts = [m.counts[stage] for m in self.metrics.values() if stage in m.counts]
            found[name] = share(counts)
        found["tested_clients"] = len(self.metrics)
        found["tested_samples"] = sum(_total(m) for m in self.metrics.values())
        return found


def share(counts: list[Count]) -> float | None:
    """Pooled accuracy of some counts."""
    total = sum(count.total for count in counts)
    return sum(count.correct for count in counts) / total if total else None


def _total(metrics: ClientMetrics) -> int:
    return max((count.total for count in metrics.counts.values()), default=0)


def mean_loss(metas: list[UpdateMeta]) -> float | None:
    """Mean training loss of the updates, by their samples."""
    known = [(meta.loss, meta.samples) for meta in metas if meta.loss is not None]
    samples = sum(n for _, n in known)
    return sum(loss * n for loss, n in known) / samples if samples else None


def mean_values(metas: list[UpdateMeta]) -> dict[str, float]:
    """Mean over the updates of every number that they report."""
    names = sorted({name for meta in metas for name in meta.values})
    reported = {name: [m.values[name] for m in metas if name in m.values] for name in names}
    return {name: sum(numbers) / len(numbers) for name, numbers in reported.items()}
