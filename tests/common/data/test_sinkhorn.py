from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.data.sinkhorn import balanced, rounded
from common.errors import ConfigError
from common.rng import generator


@given(st.integers(1, 30), st.integers(1, 15), st.integers(0, 99))
def test_a_balanced_table_has_the_sums_asked_for(rows: int, columns: int, seed: int) -> None:
    rng = generator(seed, "table")
    wanted = rng.uniform(1, 9, rows)
    below = rng.uniform(1, 9, columns)
    below *= wanted.sum() / below.sum()
    table = balanced(rng.uniform(0.01, 1, (rows, columns)), wanted, below)
    assert table.sum(1) == pytest.approx(wanted, rel=1e-5)
    assert table.sum(0) == pytest.approx(below)


def test_scaling_keeps_the_ratios_across_the_diagonal() -> None:
    table = balanced(np.array([[1.0, 2.0], [3.0, 4.0]]), np.full(2, 5.0), np.full(2, 5.0))
    assert table[0, 0] * table[1, 1] / table[0, 1] / table[1, 0] == pytest.approx(4 / 6)


def test_shares_that_come_near_the_sums_too_slowly_are_refused() -> None:
    triangle = np.array([[1.0, 0.0], [1.0, 1.0]])
    with pytest.raises(ConfigError, match=r"expected a larger data\.alpha"):
        balanced(triangle, np.ones(2), np.ones(2))


@given(st.integers(1, 30), st.integers(1, 15), st.integers(0, 99))
def test_rounding_moves_no_number_by_more_than_one_and_keeps_the_columns(
    rows: int, columns: int, seed: int
) -> None:
    rng = generator(seed, "table")
    sums = rng.integers(1, 99, columns)
    table = rng.uniform(0.01, 1, (rows, columns))
    table *= sums / table.sum(0)
    whole = rounded(table, sums)
    assert whole.sum(0).tolist() == sums.tolist()
    assert whole.min() >= 0
    assert np.abs(whole - table).max() <= 1


def test_columns_alike_do_not_all_round_up_in_the_same_row() -> None:
    whole = rounded(np.full((3, 10), 10 / 3), np.full(10, 10))
    assert sorted(whole.sum(1).tolist()) == [33, 33, 34]
