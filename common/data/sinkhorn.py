"""PURE: Sinkhorn-Knopp, scale a table of shares until its rows and columns have given sums.

Without matrix products, whose last bits differ between machines.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from common.errors import ConfigError

Table: TypeAlias = npt.NDArray[np.float64]

FLOOR = 1e-9  # keeps zeros apart from what scaling can reach
MOST_ITERATIONS = 2000
TOLERANCE = 1e-6
# so that exact halves and thirds are no ties, which machines would break differently
STAGGER = 0.6180339887


def balanced(shares: Table, rows: Table, columns: Table) -> Table:
    """The shares scaled so that they add up to `rows` and `columns`, whose totals are equal."""
    table: Table = shares + FLOOR
    error = np.inf
    for _ in range(MOST_ITERATIONS):
        table = table * (rows / table.sum(1))[:, None]
        table = table * (columns / table.sum(0))
        error = float(np.abs(table.sum(1) / rows - 1).max())
        if error <= TOLERANCE:
            return table
    raise ConfigError(
        f"no table of counts fits: the label shares of {len(rows)} clients still miss their "
        f"sizes by {error:.2g} of them after {MOST_ITERATIONS} iterations; expected a larger "
        "data.alpha, other data.clients or another experiment.seed; or the partition "
        "'dirichlet-client', which works with any"
    )


def rounded(table: Table, columns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Whole numbers near the table's, whose columns add up exactly.

    Cumulative sums are rounded; each column at another fraction, so that columns alike do not
    all round up in the same row.
    """
    ends = np.cumsum(table, axis=0)
    fractions = (np.arange(len(columns)) + STAGGER) / len(columns)
    whole = np.floor(ends / ends[-1] * columns + fractions).astype(np.int64)
    steps: npt.NDArray[np.int64] = np.diff(whole, prepend=0, axis=0)
    return steps
