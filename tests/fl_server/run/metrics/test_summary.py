"""A run in a few numbers, on lines made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from fl_server.run.metrics.summary import reached, summarize
from fl_server.watch.facts.lines import MetricsLine, parse_line
from tests.some_sums import classification

TASK = classification()


def line(round_number: int, **more: Any) -> MetricsLine:
    training = {"bytes_up": 10, "bytes_down": 30, "seconds": 2.0, "train_seconds": 3.0}
    fields: dict[str, Any] = {**(training if round_number else {}), **more}
    return parse_line({"round": round_number, **fields})


LINES = [
    line(0, accuracy_global=0.1, accuracy_l1=0.2, accuracy_l2=None, tested_clients=3),
    line(1),
    line(2, accuracy_global=0.8, accuracy_l1=0.7, accuracy_l2=0.9, tested_clients=3),
    line(3),
    line(4, accuracy_global=0.6, accuracy_l1=0.8, accuracy_l2=0.9, tested_clients=3),
]


def test_the_best_of_each_metric_is_taken_separately_with_its_round() -> None:
    figures = summarize(LINES, TASK).figures
    assert (figures["accuracy_global"].best, figures["accuracy_global"].best_round) == (0.8, 2)
    assert (figures["accuracy_l1"].best, figures["accuracy_l1"].best_round) == (0.8, 4)
    assert figures["accuracy_global"].last == 0.6


def test_of_equal_values_the_earliest_is_the_best() -> None:
    assert summarize(LINES, TASK).figures["accuracy_l2"].best_round == 2


def test_what_was_never_measured_has_no_figure() -> None:
    figures = summarize(LINES, TASK).figures
    assert figures.keys() == {"accuracy_global", "accuracy_l1", "accuracy_l2"}


def test_the_mean_of_the_last_ten_is_over_rounds_that_were_tested() -> None:
    lines = [line(n, accuracy_global=float(n)) for n in range(30) if n % 2 == 0]
    found = summarize(lines, TASK).figures["accuracy_global"]
    assert found.mean_last == sum(range(10, 30, 2)) / 10
    assert found.mean_last_from == 10
    assert summarize(lines[:1], TASK).figures["accuracy_global"].mean_last_from == 0


def test_rounds_bytes_and_seconds_to_an_accuracy() -> None:
    first, second = reached(LINES, "accuracy_global", (0.1, 0.8, 0.9))
    assert (first.round, first.bytes_up, first.seconds) == (0, 0, 0.0)
    assert (second.round, second.bytes_up, second.bytes_down) == (2, 20, 60)


def test_overall_is_the_logarithm_of_best_global_over_best_personal() -> None:
    overall = summarize(LINES, TASK, "L2").overall
    assert overall is not None
    assert overall.value == pytest.approx(-0.0511525)
    assert (overall.global_best, overall.personal_best) == (0.8, 0.9)
    equal = summarize(LINES, TASK, "L1").overall
    assert equal is not None
    assert equal.value == 0.0


def test_costs_are_sums_over_all_rounds() -> None:
    cost = summarize(LINES, TASK).cost
    assert (cost.bytes_up, cost.bytes_down, cost.seconds) == (40, 120, 8.0)
    assert cost.train_seconds == 12.0
    assert cost.energy_joules is None
    assert summarize([line(1, energy_joules=2.5)], TASK).cost.energy_joules == 2.5


def test_a_run_without_lines_has_an_empty_summary() -> None:
    summary = summarize([], TASK)
    assert (summary.rounds, summary.figures, summary.overall) == (0, {}, None)


def test_a_model_that_knows_nothing_has_no_overall() -> None:
    assert summarize([line(1, accuracy_global=0.0, accuracy_l1=0.5)], TASK).overall is None
