"""PURE: what is added up during a round: sums of tests, losses, bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from common.tasks.metrics import Number, Value
from common.tasks.sums import added
from common.tasks.task import STAGES, Task
from common.wire.messages import ClientMetrics, Stage, Sums
from common.wire.tensors import UpdateMeta

PERSONAL: tuple[Stage, ...] = ("L1", "L2")
EPSILON = 0.95
MOST_VALUES = 64

ClientSums: TypeAlias = dict[str, dict[str, dict[str, Number]]]  # client -> stage


@dataclass(slots=True)
class Tally:
    """Sums of one round; every client counts once, however often it reports."""

    metrics: dict[int, ClientMetrics] = field(default_factory=dict)
    trained: dict[int, float] = field(default_factory=dict)  # client -> seconds of its training
    bytes_up: int = 0
    bytes_down: int = 0
    joules: dict[int, float] = field(default_factory=dict)
    idle_joules: float | None = None  # of boards that wait, where that is known

    def count(self, metrics: ClientMetrics) -> None:
        """Take a client's tests."""
        self.metrics.setdefault(metrics.client, metrics)

    def spend(self, client: int, joules: float) -> None:
        """Take the energy of a client's training."""
        self.joules.setdefault(client, joules)

    @property
    def energy_joules(self) -> float | None:
        """The energy of all trainings that was measured; None where no board measures it."""
        return round(sum(self.joules.values()), 3) if self.joules else None

    def tests(self, task: Task, epsilon: float = EPSILON) -> dict[str, Value]:
        """What follows from all clients' tests, for each stage.

        `<metric>_*` pools the sums of all clients; `mean_*` and `union_*` are plain means over
        clients of each one's main metric, on its own samples and on samples of all; `rho_*`
        is the number of clients whose main metric, if it is a share, is above epsilon.
        """
        found: dict[str, Value] = {}
        pooled = {stage: task.values(added(self._tests(stage))) for stage in STAGES}
        for metric in task.metrics:
            for stage, name in STAGES.items():
                found[f"{metric.name}_{name}"] = pooled[stage][metric.name]
        for stage in PERSONAL:
            own = _main_values(task, self._tests(stage))
            name = stage.lower()
            found[f"mean_{name}"] = mean(own)
            found[f"union_{name}"] = mean(_main_values(task, self._tests(stage, union=True)))
            if task.main.share:
                found[f"rho_{name}"] = sum(value > epsilon for value in own) if own else None
        found["tested_clients"] = len(self.metrics)
        found["tested_samples"] = sum(_total(m) for m in self.metrics.values())
        return found

    def by_client(self) -> ClientSums:
        """The tests of every client, as in a line of clients.jsonl: their single sums."""
        found: ClientSums = {}
        for client in sorted(self.metrics):
            metrics = self.metrics[client]
            found[str(client)] = {
                **{stage: _singles(metrics.own[stage]) for stage in sorted(metrics.own)},
                **{f"union_{s}": _singles(metrics.union[s]) for s in sorted(metrics.union)},
            }
        return found

    def _tests(self, stage: Stage, *, union: bool = False) -> list[Sums]:
        """The tests of a stage, in the order of the clients' ids."""
        known = [self.metrics[client] for client in sorted(self.metrics)]
        tests = [metrics.union if union else metrics.own for metrics in known]
        return [test[stage] for test in tests if stage in test]


def mean(values: Sequence[float]) -> float | None:
    """The plain mean; the order of arrival does not matter."""
    return sum(sorted(values)) / len(values) if values else None


def _main_values(task: Task, tests: Sequence[Sums]) -> list[float]:
    """The main metric of each test that has one."""
    found = [task.main_value((test.samples, test.sums)) for test in tests]
    return [value for value in found if value is not None]


def _singles(tested: Sums) -> dict[str, Number]:
    whole: dict[str, Number] = {
        name: int(numbers[0]) if numbers[0].is_integer() else numbers[0]
        for name, numbers in tested.sums.items()
        if len(numbers) == 1
    }
    return {"samples": tested.samples, **whole}


def _total(metrics: ClientMetrics) -> int:
    return max((test.samples for test in metrics.own.values()), default=0)


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
