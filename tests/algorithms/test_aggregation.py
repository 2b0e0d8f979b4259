from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.algorithms.aggregation import combine
from common.arrays import Array, Arrays
from common.config import AggregationSection

ONE = {"base": 1.0}


def updates(*values: float) -> list[tuple[Arrays, dict[str, float]]]:
    return [({"base.w": np.array([value, -value], np.float32)}, ONE) for value in values]


def first(arrays: Arrays) -> float:
    return float(arrays["base.w"][0])


def test_one_liar_moves_the_mean_but_neither_median_nor_trimmed_mean() -> None:
    honest_and_liar = updates(1.0, 2.0, 3.0, 2.0, 1e9)
    assert first(combine(AggregationSection(), honest_and_liar, {})) > 1e8
    assert first(combine(AggregationSection(rule="median"), honest_and_liar, {})) == 2.0
    trimmed = AggregationSection(rule="trimmed-mean", trim=0.2)
    assert first(combine(trimmed, honest_and_liar, {})) == pytest.approx(7 / 3)


def test_an_even_number_of_updates_has_the_middle_of_two_as_median() -> None:
    assert first(combine(AggregationSection(rule="median"), updates(1, 2, 4, 9), {})) == 3.0


def test_clipping_shortens_only_what_is_too_far_away() -> None:
    start: dict[str, Array] = {"base.w": np.zeros(2, np.float32)}
    near = ({"base.w": np.array([0.3, 0.4], np.float32)}, ONE)
    far = ({"base.w": np.array([30.0, 40.0], np.float32)}, ONE)
    clip = AggregationSection(clip_norm=1.0)
    assert combine(clip, [near], start)["base.w"] == pytest.approx([0.3, 0.4])
    assert combine(clip, [far], start)["base.w"] == pytest.approx([0.6, 0.8])


some = st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=9)


@given(some, st.permutations(range(9)))
def test_robust_rules_stay_within_the_updates_and_do_not_look_at_their_order(
    values: list[float], order: list[int]
) -> None:
    shuffled = [values[at] for at in order if at < len(values)]
    for rule in ("median", "trimmed-mean"):
        settings = AggregationSection(rule=rule)
        found = combine(settings, updates(*values), {})
        assert min(values) - 1e-3 <= first(found) <= max(values) + 1e-3
        again = combine(settings, updates(*shuffled), {})
        assert np.array_equal(found["base.w"], again["base.w"])


def test_counters_of_batches_are_the_largest() -> None:
    counters = [({"base.n": np.array(n)}, ONE) for n in (3, 9, 4)]
    assert combine(AggregationSection(), counters, {})["base.n"] == 9
