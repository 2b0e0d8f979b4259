"""PURE: a task with its metrics, from what the experiment says and what the data is."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from common.config.task import AUTO, OF_ONE_CLASS, Kind, TaskSection
from common.errors import ConfigError
from common.tasks.metrics import (
    LOSS,
    LOSS_METRIC,
    OF_CLASSES,
    OF_LABELS,
    OF_NUMBERS,
    OF_TEXT,
    Metric,
    Value,
    own_metric,
)
from common.tasks.sums import KINDS, SumKind, TotalSums, check_sums
from common.wire.messages import MOST_SUMS, Stage, Sums

METRICS: Mapping[Kind, tuple[Metric, ...]] = {
    "classification": OF_CLASSES,
    "next-token": OF_TEXT,
    "multi-label": OF_LABELS,
    "regression": OF_NUMBERS,
}
USUAL: Mapping[Kind, tuple[str, ...]] = {
    "classification": ("accuracy",),
    "next-token": ("accuracy",),
    "multi-label": ("micro_f1", "exact_match"),
    "regression": ("mse", "mae", "r2"),
}
LOSSES: Mapping[Kind, tuple[str, ...]] = {
    "classification": ("cross-entropy",),
    "next-token": ("cross-entropy",),
    "multi-label": ("binary-cross-entropy",),
    "regression": ("mse", "mae", "huber"),
}
SHARE_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
MOST_LEVELS = 12
STAGES: Mapping[Stage, str] = {"G": "global", "L1": "l1", "L2": "l2"}
PERSONAL = ("mean", "union", "rho")  # of the main metric, over clients
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}\Z")
REVEALING = ("macro_f1", "class_accuracy", "confusion")  # their sums reveal counts of classes

Levels: TypeAlias = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """What is learned and measured; `outputs` is how many numbers a model answers with."""

    kind: Kind
    loss: str
    outputs: int
    metrics: tuple[Metric, ...]  # the loss is the last
    main: Metric
    levels: Levels = ()

    @property
    def kinds(self) -> dict[str, SumKind]:
        """The sums of every test, by name."""
        return self._kinds(self.metrics)

    @property
    def union_kinds(self) -> dict[str, SumKind]:
        """The sums of a test on samples of all clients."""
        return self._kinds((self.main,))

    def _kinds(self, metrics: Sequence[Metric]) -> dict[str, SumKind]:
        names = dict.fromkeys(name for metric in metrics for name in metric.sums)
        return {name: self._kind(name) for name in names}

    def _kind(self, name: str) -> SumKind:
        if name == LOSS:  # a user's own may be anything
            return SumKind(rule="any" if ":" in self.loss else "size")
        return KINDS.get(name, SumKind("two", "quotient"))

    def check(self, tested: Sums, *, union: bool = False) -> None:
        """ProtocolError if a test cannot have these sums."""
        check_sums(tested, self.union_kinds if union else self.kinds, self.outputs)

    def values(self, total: TotalSums | None) -> dict[str, Value]:
        """Every metric of some added tests."""
        return {
            metric.name: None if total is None else metric.value(*total)
            for metric in self.metrics
        }

    def main_value(self, total: TotalSums) -> float | None:
        """The main metric of some added tests."""
        found = self.main.value(*total)
        return None if isinstance(found, list) else found

    def metric_of(self, name: str) -> Metric | None:
        """The metric that a number of a line is of, such as `accuracy_l1` or `mean_l1`."""
        stem, _, stage = name.rpartition("_")
        if stage in STAGES.values():
            if stem in PERSONAL:
                return self.main
            return next((metric for metric in self.metrics if metric.name == stem), None)
        return None


def resolved(section: TaskSection, kind: Kind) -> TaskSection:
    """The section with names in the place of `auto`, for data whose targets are of a kind."""
    if section.kind not in (AUTO, kind) and {section.kind, kind} != set(OF_ONE_CLASS):
        raise ConfigError(
            f"task.kind is {section.kind!r}, but the targets of the data are for {kind}; "
            f'expected {kind!r} or "auto"'
        )
    kind = kind if section.kind == AUTO else section.kind
    metrics = section.metrics or USUAL[kind]
    names = tuple(name_of(metric) for metric in metrics)
    return msgspec.structs.replace(
        section,
        kind=kind,
        loss=LOSSES[kind][0] if section.loss == AUTO else section.loss,
        metrics=metrics,
        main=names[0] if section.main == AUTO else section.main,
    )


def make_task(section: TaskSection, outputs: int) -> Task:
    """The task of a resolved section; ConfigError names what does not fit."""
    assert section.kind != AUTO, "resolved before"
    kind = section.kind
    if ":" not in section.loss and section.loss not in LOSSES[kind]:
        expected = ", ".join(map(repr, LOSSES[kind]))
        raise ConfigError(
            f"task.loss is {section.loss!r}; for {kind} expected {expected}, or your own as "
            '"file.py:function"'
        )
    metrics = tuple(_metric(kind, one, section.lower) for one in section.metrics)
    _check_names(section, metrics)
    task = Task(kind, section.loss, outputs, (*metrics, LOSS_METRIC), LOSS_METRIC)
    _check_sizes(task)
    choices = {metric.name: metric for metric in task.metrics if metric.single}
    if section.main not in choices:
        hint = _hint(section.main, choices)
        raise ConfigError(f"task.main is {section.main!r}, which is not measured; {hint}")
    main = choices[section.main]
    levels = tuple(sorted(set(section.levels), reverse=main.lower))
    return Task(kind, section.loss, outputs, task.metrics, main, levels)


def name_of(metric: str) -> str:
    """The name of a metric: of one's own, the function's."""
    return metric.rpartition(":")[2] if ":" in metric else metric


def reveals_classes(section: TaskSection) -> bool:
    """Whether the sums of the tests reveal how many test samples of each class a client has."""
    return any(metric in REVEALING for metric in section.metrics)


def shown_metric(name: str, lower: Sequence[str]) -> Metric:
    """A metric by its name, as far as it is shown; `lower` are users' own."""
    ours = {one.name: one for metrics in METRICS.values() for one in metrics}
    known = {**ours, LOSS: LOSS_METRIC}
    return known[name] if name in known else own_metric(name, lower=name in lower)


def every_number() -> tuple[str, ...]:
    """The names in a line of all single numbers that tests can give, but users' own."""
    metrics = [one for ours in METRICS.values() for one in ours if one.single]
    names = dict.fromkeys(metric.name for metric in (*metrics, LOSS_METRIC))
    pooled = [f"{name}_{stage}" for name in names for stage in STAGES.values()]
    return (*pooled, *(f"{name}_{stage}" for name in PERSONAL for stage in ("l1", "l2")))


def _metric(kind: Kind, metric: str, lower: Sequence[str]) -> Metric:
    name = name_of(metric)
    if ":" in metric:
        if _NAME.match(name) is None:
            raise ConfigError(
                f"task.metrics has {metric!r}; expected a function with a name of lower-case "
                "letters, digits and _, at most 40"
            )
        return own_metric(name, lower=name in lower)
    known = {one.name: one for one in METRICS[kind]}
    if name == LOSS:
        raise ConfigError("task.metrics has 'loss', which is always measured; leave it out")
    if name not in known:
        raise ConfigError(f"task.metrics has {name!r}; for {kind} {_hint(name, known)}")
    return known[name]


def _hint(name: str, known: Mapping[str, Metric]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(known)}"


def _check_names(section: TaskSection, metrics: Sequence[Metric]) -> None:
    names = [metric.name for metric in metrics]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"task.metrics has {twice!r} twice")
    for own in (metric for metric in section.metrics if ":" in metric):
        name = name_of(own)
        if name in (LOSS, *PERSONAL, *KINDS) or any(
            name == one.name for ours in METRICS.values() for one in ours
        ):
            raise ConfigError(
                f"task.metrics has {own!r}, but {name!r} is a name of ours; "
                "give the function another name"
            )
    own_names = {name_of(metric) for metric in section.metrics if ":" in metric}
    for name in section.lower:
        if name not in own_names:
            raise ConfigError(
                f"task.lower names {name!r}; expected names of your own functions in "
                "task.metrics (of others it is known)"
            )


def _check_sizes(task: Task) -> None:
    for metric in task.metrics:
        for name in metric.sums:
            numbers = task.kinds[name].numbers(task.outputs)
            if numbers > MOST_SUMS:
                raise ConfigError(
                    f"task.metrics has {metric.name!r}, which needs {numbers:,} sums for "
                    f"{task.outputs} outputs; at most {MOST_SUMS:,} can be sent"
                )


def usual_levels(task: Task, values: Sequence[float]) -> Levels:
    """The levels whose cost is shown, in the order in which they are reached.

    Those of the experiment; else for a share 0.5 to 0.95; else 1, 2, 5, 10, ... and their
    tenths, as far as they lie between the first value and the best one.
    """
    if task.levels:
        return task.levels
    if task.main.share:
        return SHARE_LEVELS
    if not values:
        return ()
    best = min(values) if task.main.lower else max(values)
    low, high = sorted((values[0], best))
    powers = range(*_powers(low, high))
    steps = [float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]
    found = [step for step in steps if low < step <= high or (task.main.lower and step == low)]
    return tuple(sorted(found, reverse=task.main.lower)[-MOST_LEVELS:])


def _powers(low: float, high: float) -> tuple[int, int]:
    """The powers of ten between two numbers, of those that are worth a table."""
    if high <= 0:
        return 0, 0
    top = math.floor(math.log10(high))
    bottom = math.floor(math.log10(low)) if low > 0 else top - 4
    return max(bottom, top - 12), top + 1
