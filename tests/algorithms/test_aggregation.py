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
    for rule in ("median", "trimmed-mean", "multi-krum"):
        settings = AggregationSection(rule=rule)
        found = combine(settings, updates(*values), {})
        assert min(values) - 1e-3 <= first(found) <= max(values) + 1e-3
        again = combine(settings, updates(*shuffled), {})
        if rule != "multi-krum":  # equal scores: the first of them counts
            assert np.array_equal(found["base.w"], again["base.w"])


def test_counters_of_batches_are_the_largest() -> None:
    counters = [({"base.n": np.array(n)}, ONE) for n in (3, 9, 4)]
    assert combine(AggregationSection(), counters, {})["base.n"] == 9


def krum_of_the_paper(points: list[list[float]], hostile: int) -> list[int]:
    """Section 4 of Blanchard et al. (2017): all indices, the lowest score first."""
    scores = []
    for i, mine in enumerate(points):
        distances = [
            sum((a - b) ** 2 for a, b in zip(mine, other, strict=True))
            for j, other in enumerate(points)
            if j != i
        ]
        scores.append(sum(sorted(distances)[: len(points) - hostile - 2]))
    return sorted(range(len(points)), key=lambda i: scores[i])


def test_krum_and_multi_krum_are_those_of_the_paper() -> None:
    rng = np.random.default_rng(3)
    for hostile in (0, 1, 2):
        points = rng.normal(size=(9, 4)).round(3)
        points[:hostile] += 50.0
        order = krum_of_the_paper(points.tolist(), hostile)
        items = [({"base.w": point.astype(np.float32)}, {"base": 7.0}) for point in points]
        krum = combine(AggregationSection(rule="krum", hostile=hostile), items, {})
        assert np.array_equal(krum["base.w"], points[order[0]].astype(np.float32))
        several = combine(AggregationSection(rule="multi-krum", hostile=hostile), items, {})
        kept = points[order[: 9 - hostile]]
        assert several["base.w"] == pytest.approx(kept.mean(axis=0), rel=1e-6)


def test_krum_goes_on_with_fewer_updates_than_it_wants() -> None:
    settings = AggregationSection(rule="krum", hostile=3)
    assert first(combine(settings, updates(2.0), {})) == 2.0
    assert first(combine(settings, updates(1.0, 2.0, 100.0), {})) in (1.0, 2.0)


def test_norm_bounding_is_that_of_the_paper() -> None:
    """Sun et al. (2019): the mean of moves, each divided by max(1, its length / M)."""
    rng = np.random.default_rng(4)
    start = rng.normal(size=5).astype(np.float32)
    moves = rng.normal(size=(4, 5)) * np.array([[0.1], [1.0], [10.0], [100.0]])
    bounded = [move / max(1.0, float(np.linalg.norm(move)) / 2.0) for move in moves]
    items = [({"base.w": (start + move).astype(np.float32)}, ONE) for move in moves]
    found = combine(AggregationSection(clip_norm=2.0), items, {"base.w": start})
    assert found["base.w"] == pytest.approx(start + np.mean(bounded, axis=0), abs=1e-4)
