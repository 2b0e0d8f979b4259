"""Updates that started from an older model."""

from __future__ import annotations

import numpy as np
import pytest

from common.arrays import Array
from common.config import AggregationSection
from fl_server.run.model.stale import put_onto, staleness_weight

SETTINGS = AggregationSection(buffer=2)


def arrays(value: float) -> dict[str, Array]:
    return {
        "base.weight": np.full(3, value, np.float32),
        "base.running_var": np.full(3, abs(value), np.float32),
        "base.count": np.array(int(value), np.int64),
        "own.thing": np.full(1, value, np.float32),
    }


def put(staleness: int, settings: AggregationSection = SETTINGS) -> dict[str, Array]:
    """An update of 5, from a model of 2, onto a newest one of 3."""
    newest = {name: array for name, array in arrays(3.0).items() if name != "own.thing"}
    older = newest if staleness == 0 else arrays(2.0)
    return put_onto(
        newest,
        arrays(5.0),
        older,
        settings,
        staleness=staleness,
        buffers={"base.running_var"},
    )


@pytest.mark.parametrize(("age", "weight"), [(0, 1.0), (3, 0.5), (8, 1 / 3)])
def test_an_older_update_counts_by_the_root_of_its_age(age: int, weight: float) -> None:
    assert staleness_weight(age, 0.5) == pytest.approx(weight)
    assert staleness_weight(age, 0.0) == 1.0


def test_a_fresh_update_stays_as_it_is() -> None:
    fresh = put(0)
    assert all(np.array_equal(fresh[name], array) for name, array in arrays(5.0).items())


def test_a_stale_update_is_its_move_from_the_newest_model_on() -> None:
    moved = put(3)
    assert moved["base.weight"] == pytest.approx(3.0 + 0.5 * (5.0 - 2.0))
    assert moved["base.running_var"] == pytest.approx(3.0 + 0.5 * (5.0 - 3.0))
    assert int(moved["base.count"]) == 5
    assert moved["own.thing"].tolist() == [5.0]
    assert moved["base.weight"].dtype == np.float32


def test_the_server_rate_scales_moves_but_no_running_statistics() -> None:
    moved = put(3, AggregationSection(buffer=2, server_rate=2.0))
    assert moved["base.weight"] == pytest.approx(3.0 + 2.0 * 0.5 * (5.0 - 2.0))
    assert moved["base.running_var"] == pytest.approx(4.0)
    assert put(0, AggregationSection(buffer=2, server_rate=2.0))[
        "base.weight"
    ] == pytest.approx(7.0)


def test_a_variance_stays_positive_however_old_the_update() -> None:
    old = {"base.running_var": np.full(1, 9.0, np.float32)}
    small = {"base.running_var": np.full(1, 0.1, np.float32)}
    moved = put_onto(small, small, old, SETTINGS, staleness=1, buffers={"base.running_var"})
    assert moved["base.running_var"] > 0
