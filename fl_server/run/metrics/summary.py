"""PURE: a finished (or unfinished) run in a few numbers, from its lines of metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from common.tasks.task import PERSONAL, STAGES, Task, usual_levels
from fl_server.watch.facts.derived import value_in
from fl_server.watch.facts.lines import MetricsLine, number_in

RECENT = 10


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One metric over a run: its best value and when, its last, the mean of the last ten.

    Ten tests, not rounds: `mean_last_from` is the round of the first of them.
    """

    best: float
    best_round: int
    last: float
    mean_last: float
    mean_last_from: int


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """What it took to reach a level of the main metric for the first time."""

    level: float
    round: int
    bytes_up: int
    bytes_down: int
    seconds: float
    energy_joules: float | None = None  # also of waiting, where that is known


class Overall(msgspec.Struct, frozen=True, kw_only=True):
    """log10(g/p): 0 if global and personal models are equally good; nothing about the level."""

    value: float
    global_best: float
    personal_best: float


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What all rounds together cost."""

    bytes_up: int
    bytes_down: int
    seconds: float
    train_seconds: float
    aggregate_seconds: float
    energy_joules: float | None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a few numbers; `figures` has only metrics that were measured.

    `main` is the task's main metric; `lower`: less is better; `share`: it is from 0 to 1.
    """

    rounds: int
    tested_rounds: int
    main: str
    lower: bool
    share: bool
    personal_stage: str
    figures: dict[str, Figure]
    reached_global: tuple[Reach, ...]
    reached_personal: tuple[Reach, ...]
    overall: Overall | None
    cost: Cost


def global_metric(task: Task) -> str:
    """The pooled main metric of the global model."""
    return f"{task.main.name}_global"


def personal_metric(task: Task, stage: Literal["L1", "L2"]) -> str:
    """The pooled main metric of a personal stage."""
    return f"{task.main.name}_{stage.lower()}"


def measured(task: Task) -> tuple[str, ...]:
    """The names of all single numbers that tests may give."""
    pooled = [
        f"{metric.name}_{stage}"
        for metric in task.metrics
        if metric.single
        for stage in STAGES.values()
    ]
    over_clients = [f"{name}_{stage}" for name in PERSONAL for stage in ("l1", "l2")]
    return (*pooled, *over_clients)


def summarize(
    lines: Sequence[MetricsLine],
    task: Task,
    stage: Literal["L1", "L2"] = "L1",
    levels: Sequence[float] | None = None,
) -> Summary:
    """The summary of a run's lines, in the order of their rounds."""
    figures = {
        name: found
        for name in measured(task)
        if (found := figure(lines, name, lower=is_lower(task, name))) is not None
    }
    shared, personal = global_metric(task), personal_metric(task, stage)

    def reach(name: str) -> tuple[Reach, ...]:
        wanted = levels
        if wanted is None:
            wanted = usual_levels(task, [value for _, value in values(lines, name)])
        return reached(lines, name, wanted, lower=task.main.lower)

    return Summary(
        rounds=max((line.round for line in lines), default=0),
        tested_rounds=sum(bool(number_in(line, "tested_clients")) for line in lines),
        main=task.main.name,
        lower=task.main.lower,
        share=task.main.share,
        personal_stage=stage,
        figures=figures,
        reached_global=reach(shared),
        reached_personal=reach(personal),
        overall=overall(figures.get(shared), figures.get(personal)),
        cost=cost(lines),
    )


def is_lower(task: Task, name: str) -> bool:
    """Whether less is better of a number by its name in a line."""
    metric = task.metric_of(name)
    return metric is not None and metric.lower


def values(lines: Sequence[MetricsLine], name: str) -> list[tuple[int, float]]:
    """(round, value) of a metric, where it was measured."""
    found = ((line.round, value_in(line, name)) for line in lines)
    return [(round_number, value) for round_number, value in found if value is not None]


def figure(lines: Sequence[MetricsLine], name: str, *, lower: bool = False) -> Figure | None:
    """A metric over a run; of equal values the earliest is the best.

    The model before any training is not among the last ten of a short run.
    """
    found = values(lines, name)
    if not found:
        return None
    sign = -1 if lower else 1
    round_number, best = max(found, key=lambda pair: (sign * pair[1], -pair[0]))
    recent = [pair for pair in found if pair[0] > 0][-RECENT:] or found[-1:]
    return Figure(
        best=best,
        best_round=round_number,
        last=found[-1][1],
        mean_last=sum(value for _, value in recent) / len(recent),
        mean_last_from=recent[0][0],
    )


def reached(
    lines: Sequence[MetricsLine], name: str, levels: Sequence[float], *, lower: bool = False
) -> tuple[Reach, ...]:
    """For every level that was reached: after which round, bytes and seconds."""
    found = values(lines, name)
    firsts = {
        level: next(
            (at for at, value in found if (value <= level if lower else value >= level)), None
        )
        for level in levels
    }
    return tuple(
        _reach(lines, level, round_number)
        for level, round_number in firsts.items()
        if round_number is not None
    )


def _reach(lines: Sequence[MetricsLine], level: float, round_number: int) -> Reach:
    before = [line for line in lines if line.round <= round_number]
    spent, idle = cost(before), [value for _, value in values(before, "idle_joules")]
    energy = spent.energy_joules
    return Reach(
        level=level,
        round=round_number,
        bytes_up=spent.bytes_up,
        bytes_down=spent.bytes_down,
        seconds=spent.seconds,
        energy_joules=None if energy is None else round(energy + math.fsum(idle), 3),
    )


def cost(lines: Sequence[MetricsLine]) -> Cost:
    """The sums over the rounds of these lines."""

    def total(name: str) -> float:
        return math.fsum(number_in(line, name) or 0 for line in lines)

    energy = [value for _, value in values(lines, "energy_joules")]
    return Cost(
        bytes_up=int(total("bytes_up")),
        bytes_down=int(total("bytes_down")),
        seconds=round(total("seconds"), 3),
        train_seconds=round(total("train_seconds"), 3),
        aggregate_seconds=round(total("aggregate_seconds"), 3),
        energy_joules=round(math.fsum(energy), 3) if energy else None,
    )


def overall(best_global: Figure | None, best_personal: Figure | None) -> Overall | None:
    """The ratio of the best global to the best personal main metric, as its logarithm."""
    if best_global is None or best_personal is None:
        return None
    g, p = best_global.best, best_personal.best
    if g <= 0 or p <= 0:
        return None
    return Overall(value=math.log10(g / p), global_best=g, personal_best=p)
