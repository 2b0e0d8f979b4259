"""PURE: the exact sum of several updates as it travels: which integers it may have.

The sums of weights are not sent: they follow from the metadata of the members.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from common.arrays import Array, Arrays, part_of
from common.errors import ProtocolError
from common.privacy.exact import LARGEST_WHOLE, SUMS, ExactSum, Scale, fixed


def as_sent(total: ExactSum) -> dict[str, Array]:
    """The integers of a sum, without what follows from its members."""
    return {name: a.view(np.int64) for name, a in total.total.items() if name != SUMS}


def as_received(
    scale: Scale, arrays: Arrays, like: Arrays, weights: Iterable[Mapping[str, float]]
) -> dict[str, Array]:
    """The integers of a sum whose members have these weights; ProtocolError if no updates
    like `like` can have it."""
    everyone = list(weights)
    empty = {name: np.empty(0, array.dtype) for name, array in like.items()}
    sums = sum(fixed(scale, empty, each)[SUMS] for each in everyone)
    if arrays.keys() != like.keys():
        odd = sorted(arrays.keys() ^ like.keys())
        raise ProtocolError(f"arrays missing or unknown: {', '.join(odd)[:200]}")
    for name, wanted in like.items():
        array = arrays[name]
        if array.dtype != np.int64 or array.shape != wanted.shape:
            raise ProtocolError(
                f"{name} is {array.dtype}{list(array.shape)}; "
                f"expected the sum of {wanted.dtype}{list(wanted.shape)}"
            )
        most = _most(scale, name, wanted, everyone)
        if array.size and not (int(array.min()) >= -most and int(array.max()) <= most):
            raise ProtocolError(f"{name} has values that no sum of these clients can have")
    integers: dict[str, Array] = {name: array.view(np.uint64) for name, array in arrays.items()}
    return {**integers, SUMS: np.asarray(sums, np.uint64)}


def _most(scale: Scale, name: str, wanted: Array, everyone: list[Mapping[str, float]]) -> int:
    """The largest integer that a sum of these updates can have."""
    if np.issubdtype(wanted.dtype, np.integer):
        return len(everyone) * LARGEST_WHOLE
    heavy = sum(each[part_of(name)] for each in everyone)
    rounded = heavy * scale.largest * (1 + 1e-12)  # float64 rounds what clients multiply
    return int(math.ldexp(rounded, scale.bits)) + len(everyone)
