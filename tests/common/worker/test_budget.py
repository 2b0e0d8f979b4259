"""How much a client may train in a job."""

from __future__ import annotations

import time

from common.learning.training import TrainingStats
from common.worker.client import Budget


def test_without_a_limit_nothing_ends_a_training_and_weights_stay() -> None:
    budget = Budget()
    assert not budget.is_over(10**9)
    budget.note(TrainingStats(0.1, 3, 4))  # BatchNorm left out a step
    assert budget.scaled({"base": 7.0}) == {"base": 7.0}


def test_steps_are_counted_over_all_trainings_of_a_job() -> None:
    budget = Budget(5.0, most_steps=10)
    assert not budget.is_over(9)
    assert budget.is_over(10)
    budget.note(TrainingStats(0.1, 6, 20))
    assert budget.is_over(4)
    budget.note(TrainingStats(0.1, 4, 20))
    assert budget.scaled({"base": 8.0, "head": 4.0}) == {"base": 2.0, "head": 1.0}


def test_else_the_clock_decides() -> None:
    assert Budget(5.0, began=time.monotonic() - 6.0).is_over(1)
    assert not Budget(500.0).is_over(10**9)
