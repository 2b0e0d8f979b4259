"""Tests of clients, added up."""

from __future__ import annotations

import msgspec
import pytest

from common.wire.messages import ClientMetrics, Stage, Sums
from common.wire.tensors import UpdateMeta
from fl_server.run.metrics.tally import Tally, mean_loss
from tests.some_sums import classification, counted

TASK = classification()


def metrics(client: int, **counts: tuple[int, int]) -> ClientMetrics:
    stages: dict[str, Stage] = {"g": "G", "l1": "L1", "l2": "L2"}
    return ClientMetrics(
        run="run",
        round=1,
        client=client,
        own={
            stages[name]: counted(correct, total) for name, (correct, total) in counts.items()
        },
    )


def meta(loss: float | None, samples: int) -> UpdateMeta:
    return UpdateMeta(
        run="run", round=1, client=0, samples=samples, steps=1, weights={"base": 1.0}, loss=loss
    )


def test_accuracy_is_correct_over_total_of_all_clients() -> None:
    tally = Tally()
    tally.count(metrics(0, g=(1, 10), l1=(5, 10), l2=(6, 10)))
    tally.count(metrics(1, g=(27, 30), l1=(15, 30)))
    assert tally.tests(TASK) == {
        "accuracy_global": 0.7,
        "accuracy_l1": 0.5,
        "accuracy_l2": 0.6,
        "loss_global": 1.0,
        "loss_l1": 1.0,
        "loss_l2": 1.0,
        "mean_l1": 0.5,
        "mean_l2": 0.6,
        "union_l1": None,
        "union_l2": None,
        "rho_l1": 0,
        "rho_l2": 0,
        "tested_clients": 2,
        "tested_samples": 40,
    }


def test_means_over_clients_do_not_weigh_by_samples() -> None:
    tally = Tally()
    tally.count(metrics(0, l1=(10, 10), l2=(10, 10)))
    tally.count(metrics(1, l1=(15, 30)))
    found = tally.tests(TASK)
    assert (found["mean_l1"], found["mean_l2"]) == (0.75, 1.0)
    assert found["accuracy_l1"] == 0.625


def test_rho_counts_clients_above_epsilon_and_not_at_it() -> None:
    tally = Tally()
    for client, correct in enumerate((96, 95, 97, 10)):
        tally.count(metrics(client, l1=(correct, 100)))
    assert tally.tests(TASK)["rho_l1"] == 2
    assert tally.tests(TASK, epsilon=0.05)["rho_l1"] == 4
    assert tally.tests(TASK)["rho_l2"] is None


def test_the_union_accuracy_is_the_mean_of_personal_models_on_samples_of_all() -> None:
    tally = Tally()
    for client, correct in ((0, 2), (1, 6)):
        own = metrics(client, l1=(9, 10))
        union: dict[Stage, Sums] = {"L1": counted(correct, 10)}
        tally.count(msgspec.structs.replace(own, union=union))
    found = tally.tests(TASK)
    assert (found["union_l1"], found["union_l2"]) == (0.4, None)
    assert found["accuracy_l1"] == 0.9
    assert tally.by_client() == {
        "0": {
            "L1": {"samples": 10, "correct": 9, "loss": 10},
            "union_L1": {"samples": 10, "correct": 2, "loss": 10},
        },
        "1": {
            "L1": {"samples": 10, "correct": 9, "loss": 10},
            "union_L1": {"samples": 10, "correct": 6, "loss": 10},
        },
    }


def test_a_client_counts_once_however_often_it_reports() -> None:
    tally = Tally()
    for correct in (3, 3, 4):
        tally.count(metrics(7, g=(correct, 4)))
    assert tally.tests(TASK)["accuracy_global"] == 0.75
    assert tally.tests(TASK)["tested_samples"] == 4


def test_nothing_tested_is_no_accuracy() -> None:
    assert Tally().tests(TASK) == {
        "accuracy_global": None,
        "accuracy_l1": None,
        "accuracy_l2": None,
        "loss_global": None,
        "loss_l1": None,
        "loss_l2": None,
        "mean_l1": None,
        "mean_l2": None,
        "union_l1": None,
        "union_l2": None,
        "rho_l1": None,
        "rho_l2": None,
        "tested_clients": 0,
        "tested_samples": 0,
    }


def test_a_client_without_tests_is_tested_on_no_samples() -> None:
    tally = Tally()
    tally.count(metrics(0))
    assert tally.tests(TASK)["tested_clients"] == 1
    assert tally.tests(TASK)["tested_samples"] == 0


def test_loss_is_weighted_by_samples() -> None:
    assert mean_loss([meta(1.0, 10), meta(4.0, 20), meta(None, 1000)]) == pytest.approx(3.0)


def test_without_updates_there_is_no_loss() -> None:
    assert mean_loss([]) is None
    assert mean_loss([meta(None, 10)]) is None


def test_energy_is_known_as_soon_as_one_board_measures_it_and_counts_once() -> None:
    tally = Tally()
    assert tally.energy_joules is None
    tally.spend(3, 10.5)
    tally.spend(3, 10.5)
    tally.spend(4, 1.0)
    assert tally.energy_joules == 11.5
