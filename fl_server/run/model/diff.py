"""PURE: where two models differ, array by array."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from common.arrays import Arrays


@dataclass(frozen=True, slots=True)
class ArrayDiff:
    """One array that is not the same in both; numbers only if they can be compared.

    `largest` is the largest absolute difference, `relative` the norm of the difference over
    the norm of the first, `changed` how many values differ of `size`.
    """

    name: str
    text: str = ""
    largest: float = 0.0
    relative: float = 0.0
    changed: int = 0
    size: int = 0


def model_diff(first: Arrays, second: Arrays) -> list[ArrayDiff]:
    """The arrays whose bits are not the same; an empty list if all are."""
    found = (
        _one(name, first, second)
        for name in sorted({*first, *second})
        if not _same(name, first, second)
    )
    return list(found)


def _same(name: str, first: Arrays, second: Arrays) -> bool:
    if name not in first or name not in second:
        return False
    a, b = first[name], second[name]
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _one(name: str, first: Arrays, second: Arrays) -> ArrayDiff:
    if name not in second:
        return ArrayDiff(name, "only in the first")
    if name not in first:
        return ArrayDiff(name, "only in the second")
    a, b = first[name], second[name]
    if a.dtype != b.dtype or a.shape != b.shape:
        return ArrayDiff(
            name, f"{a.dtype} {a.shape} in the first, {b.dtype} {b.shape} in the second"
        )
    left, right = a.astype(np.float64), b.astype(np.float64)
    size = float(np.linalg.norm(left))
    apart = left - right
    changed = np.frombuffer(a.tobytes(), np.uint8) != np.frombuffer(b.tobytes(), np.uint8)
    values = changed.reshape(-1, a.dtype.itemsize).any(axis=1)
    return ArrayDiff(
        name,
        largest=float(np.abs(apart).max(initial=0.0)),
        relative=float(np.linalg.norm(apart)) / size if size else 0.0,
        changed=int(values.sum()),
        size=a.size,
    )
