"""Exact sums: the same in every order and grouping, and never an overflow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.arrays import Arrays, weighted_mean
from common.errors import ConfigError, ProtocolError
from common.privacy.exact import ExactSum, exact_mean, fixed, make_scale

SCALE = make_scale(updates=12, heaviest=6000.0, largest=4096.0)
values = st.floats(-4096, 4096, width=32)
update = st.tuples(
    st.lists(values, min_size=3, max_size=3),
    st.floats(2**-10, 6000.0),
    st.integers(0, 6000),
    st.one_of(st.none(), st.floats(-1e30, 1e30)),
)


def arrays_of(numbers: list[float]) -> Arrays:
    return {
        "base.w": np.array(numbers, np.float32),
        "head.w": np.array(numbers[:1], np.float32),
        "head.n": np.array(int(numbers[2]), np.int64),
    }


def integers_of(one: tuple[list[float], float, int, float | None]) -> Arrays:
    numbers, weight, samples, loss = one
    weights = {"base": weight, "head": 1.0}
    return fixed(SCALE, arrays_of(numbers), weights, samples=samples, loss=loss)


@given(st.lists(update, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_the_sum_is_the_same_in_every_order_and_grouping(updates, rng) -> None:  # type: ignore[no-untyped-def]
    flat = ExactSum(SCALE)
    for client, one in enumerate(updates):
        flat.add([client], integers_of(one))
    order = rng.sample(range(len(updates)), len(updates))
    groups: dict[int, ExactSum] = {}
    for client in order:
        group = groups.setdefault(rng.randrange(3), ExactSum(SCALE))
        group.add([client], integers_of(updates[client]))
    tiers = ExactSum(SCALE)
    for group in groups.values():
        tiers.add(sorted(group.clients), group.total)
    assert tiers.clients == flat.clients
    for name, total in flat.total.items():
        assert np.array_equal(total, tiers.total[name]), name
    one, other = flat.result(arrays_of([0, 0, 0])), tiers.result(arrays_of([0, 0, 0]))
    assert (one.samples, one.loss) == (other.samples, other.loss)
    assert one.samples == sum(samples for _, _, samples, _ in updates)


@given(st.lists(update, min_size=1, max_size=12))
def test_the_mean_is_that_of_float64_to_the_last_digits_of_float32(updates) -> None:  # type: ignore[no-untyped-def]
    items = [
        (arrays_of(numbers), {"base": min(1.0 + weight, 6000.0), "head": 1.0})
        for numbers, weight, _, _ in updates
    ]
    found, expected = exact_mean(SCALE, [(a, {**w}) for a, w in items]), weighted_mean(items)
    for name in ("base.w", "head.w"):
        assert found[name] == pytest.approx(expected[name], rel=1e-6, abs=2e-6)


@given(st.integers(1, 2**20), st.floats(0.1, 2.0**40), st.floats(1, 1e9))
def test_no_sum_overflows_or_the_settings_are_refused(
    updates: int, heaviest: float, largest: float
) -> None:
    try:
        scale = make_scale(updates=updates, heaviest=heaviest, largest=largest)
    except ConfigError:
        return
    extreme = {"base.w": np.array([largest, -largest]), "base.n": np.array([2**40, -(2**40)])}
    one = fixed(scale, extreme, {"base": scale.heaviest}, samples=2**62, loss=1e30)
    for name, integers in one.items():
        whole = [int(value) * updates for value in integers.view(np.int64)]  # of any length
        assert all(-(2**63) <= value < 2**63 for value in whole), name


@pytest.mark.parametrize(
    ("value", "weight", "expected"),
    [
        (4097.0, 1.0, "base.w has values beyond 4096"),
        (float("nan"), 1.0, "base.w has values beyond 4096"),
        (1.0, 6001.0, "weight 6001 of 'base'; exact sums hold at most 6000"),
        (1.0, 0.0, "weight 0 of 'base'"),
    ],
)
def test_what_could_overflow_is_refused(value: float, weight: float, expected: str) -> None:
    with pytest.raises(ProtocolError, match=expected):
        fixed(SCALE, {"base.w": np.array([value], np.float32)}, {"base": weight})


def test_nobody_counts_twice() -> None:
    total = ExactSum(SCALE)
    one = fixed(SCALE, {"base.w": np.ones(2, np.float32)}, {"base": 1.0})
    total.add([3], one)
    with pytest.raises(ProtocolError, match="clients \\[3\\] are in the sum"):
        total.add([3], one)


def test_losses_and_samples_are_summed_with_the_updates() -> None:
    total = ExactSum(SCALE)
    reports: list[tuple[int, float | None]] = [(10, 0.5), (30, 1.5), (5, None)]
    for client, (samples, loss) in enumerate(reports):
        arrays = {"base.w": np.zeros(1, np.float32)}
        total.add([client], fixed(SCALE, arrays, {"base": 1.0}, samples=samples, loss=loss))
    found = total.result({"base.w": np.zeros(1, np.float32)})
    assert (found.samples, found.loss) == (45, 1.25)
