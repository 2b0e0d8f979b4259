"""PURE: updates that started from an older model, put onto the newest (FedBuff).

An update is the model that a client has trained. What counts is how far it went: as much as its
age allows, from the newest model. So whatever the server half does with models of clients, it
does with these.
"""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from common.arrays import Array, Arrays
from common.config import AggregationSection


def staleness_weight(staleness: int, exponent: float) -> float:
    """How much an update counts whose model is so many rounds old; 1 for a fresh one."""
    return float((1.0 + staleness) ** -exponent)


def put_onto(
    newest: Arrays,
    arrays: dict[str, Array],
    started_from: Arrays,
    settings: AggregationSection,
    *,
    staleness: int,
    buffers: Set[str],
) -> dict[str, Array]:
    """An update as if it had started from the newest model.

    Running statistics are drawn towards the update instead: a variance that is moved could
    become negative. Whole numbers, and what is not in a download, stay as they are.
    """
    weight = staleness_weight(staleness, settings.staleness_exponent)
    if staleness == 0 and settings.server_rate == 1.0:
        return arrays
    moved: dict[str, Array] = {}
    for name, array in arrays.items():
        if name not in newest or not np.issubdtype(array.dtype, np.floating):
            moved[name] = array
            continue
        fixed = name in buffers
        origin = (newest if fixed else started_from)[name].astype(np.float64)
        factor = weight if fixed else weight * settings.server_rate
        moved[name] = (newest[name] + factor * (array - origin)).astype(array.dtype)
    return moved
