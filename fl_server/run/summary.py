"""PURE: a finished (or unfinished) run in a few numbers, from its lines of metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from fl_server.watch.facts.derived import value_in
from fl_server.watch.facts.lines import MetricsLine, number_in

METRICS = (
    *("accuracy_global", "accuracy_l1", "accuracy_l2", "mean_l1", "mean_l2"),
    *("union_l1", "union_l2", "rho_l1", "rho_l2"),
)
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
RECENT = 10
GLOBAL = "accuracy_global"


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
    """What it took to reach an accuracy for the first time."""

    accuracy: float
    round: int
    bytes_up: int
    bytes_down: int
    seconds: float


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
    """A run in a few numbers; `figures` has only metrics that were measured."""

    rounds: int
    tested_rounds: int
    personal_stage: str
    figures: dict[str, Figure]
    reached_global: tuple[Reach, ...]
    reached_personal: tuple[Reach, ...]
    overall: Overall | None
    cost: Cost


def personal_metric(stage: Literal["L1", "L2"]) -> str:
    """The pooled personal accuracy of a stage."""
    return f"accuracy_{stage.lower()}"


def summarize(
    lines: Sequence[MetricsLine],
    stage: Literal["L1", "L2"] = "L1",
    thresholds: Sequence[float] = THRESHOLDS,
) -> Summary:
    """The summary of a run's lines, in the order of their rounds."""
    figures = {name: found for name in METRICS if (found := figure(lines, name)) is not None}
    personal = personal_metric(stage)
    return Summary(
        rounds=max((line.round for line in lines), default=0),
        tested_rounds=sum(bool(number_in(line, "tested_clients")) for line in lines),
        personal_stage=stage,
        figures=figures,
        reached_global=reached(lines, GLOBAL, thresholds),
        reached_personal=reached(lines, personal, thresholds),
        overall=overall(figures.get(GLOBAL), figures.get(personal)),
        cost=cost(lines),
    )


def values(lines: Sequence[MetricsLine], name: str) -> list[tuple[int, float]]:
    """(round, value) of a metric, where it was measured."""
    found = ((line.round, value_in(line, name)) for line in lines)
    return [(round_number, value) for round_number, value in found if value is not None]


def figure(lines: Sequence[MetricsLine], name: str) -> Figure | None:
    """A metric over a run; of equal values the earliest is the best.

    The model before any training is not among the last ten of a short run.
    """
    found = values(lines, name)
    if not found:
        return None
    round_number, best = max(found, key=lambda pair: (pair[1], -pair[0]))
    recent = [pair for pair in found if pair[0] > 0][-RECENT:] or found[-1:]
    return Figure(
        best=best,
        best_round=round_number,
        last=found[-1][1],
        mean_last=sum(value for _, value in recent) / len(recent),
        mean_last_from=recent[0][0],
    )


def reached(
    lines: Sequence[MetricsLine], name: str, thresholds: Sequence[float]
) -> tuple[Reach, ...]:
    """For every accuracy that was reached: after which round, bytes and seconds."""
    found = values(lines, name)
    firsts = {
        threshold: next(
            (round_number for round_number, value in found if value >= threshold), None
        )
        for threshold in thresholds
    }
    return tuple(
        _reach(lines, threshold, round_number)
        for threshold, round_number in firsts.items()
        if round_number is not None
    )


def _reach(lines: Sequence[MetricsLine], accuracy: float, round_number: int) -> Reach:
    spent = cost([line for line in lines if line.round <= round_number])
    return Reach(
        accuracy=accuracy,
        round=round_number,
        bytes_up=spent.bytes_up,
        bytes_down=spent.bytes_down,
        seconds=spent.seconds,
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
    """The ratio of the best global to the best personal accuracy, as its logarithm."""
    if best_global is None or best_personal is None:
        return None
    g, p = best_global.best, best_personal.best
    if g <= 0 or p <= 0:
        return None
    return Overall(value=math.log10(g / p), global_best=g, personal_best=p)
