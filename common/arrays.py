"""PURE: named arrays, the form in which models, states and updates exist outside of torch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Arrays: TypeAlias = Mapping[str, Array]
_PIECE = 32 * 1024


def digest(arrays: Arrays) -> str:
    """One short name for these exact bits: equal digests, equal arrays."""
    state = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        state.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        state.update(array.data if array.size else b"")
    return state.hexdigest()


def weighted_mean(items: Iterable[tuple[Arrays, Mapping[str, float]]]) -> dict[str, Array]:
    """Mean of arrays in float64, in the given order; each part of the model has its own weight.

    Of integers (counters of batches, in some models) it is the largest.
    `items` is read once and one item is held at a time, so it may load them from disk.
    """
    sums = Sums()
    for arrays, weights in items:
        sums.add(arrays, weights)
        del arrays  # before the next are loaded
    return sums.means()


class Sums:
    """Arrays that are being added up in float64; each part of the model has its own weight."""

    def __init__(self) -> None:
        self._total: dict[str, Array] = {}
        self._weight: dict[str, float] = {}
        self._kinds: dict[str, np.dtype[Any]] = {}

    def add(self, arrays: Arrays, weights: Mapping[str, float]) -> None:
        """Add one item; the order of items decides about the last bits."""
        for name, array in arrays.items():
            if np.issubdtype(array.dtype, np.integer):
                self._total[name] = np.maximum(self._total.get(name, array), array)
                continue
            share = weights[part_of(name)]
            if name not in self._total:
                self._total[name] = np.zeros(array.shape, np.float64)
                self._weight[name] = 0.0
                self._kinds[name] = array.dtype
            _add(self._total[name], array, share)
            self._weight[name] += share

    def means(self) -> dict[str, Array]:
        """The weighted mean; nothing can be added any more."""
        return {
            name: _divided(array, self._weight[name]).astype(self._kinds[name])
            if name in self._weight
            else array
            for name, array in self._total.items()
        }


def _divided(total: Array, weight: float) -> Array:
    total /= weight  # in place: a copy would double the memory of the sums
    return total


def _add(total: Array, array: Array, share: float) -> None:
    """total += share * array, in pieces that stay in the processor's cache."""
    flat, sums = np.ascontiguousarray(array).reshape(-1), total.reshape(-1)
    product = np.empty(min(_PIECE, flat.size))
    for start in range(0, flat.size, _PIECE):
        piece, here = flat[start : start + _PIECE], sums[start : start + _PIECE]
        shared = np.multiply(piece, share, out=product[: piece.size], dtype=np.float64)
        np.add(here, shared, out=here)


def part_of(name: str) -> str:
    """Which part of the model an array belongs to: what stands before the first dot."""
    return name.split(".", 1)[0]


def parts(arrays: Arrays, names: Iterable[str]) -> dict[str, Array]:
    """The arrays of some parts."""
    wanted = frozenset(names)
    return {name: array for name, array in arrays.items() if part_of(name) in wanted}


def renamed(arrays: Arrays, old: str, new: str) -> dict[str, Array]:
    """The arrays of one part, under the name of another part."""
    return {
        new + name.removeprefix(old): array
        for name, array in arrays.items()
        if part_of(name) == old
    }


def under(part: str, arrays: Arrays) -> dict[str, Array]:
    """The arrays as a part of their own: `part.` before every name."""
    return {f"{part}.{name}": array for name, array in arrays.items()}


def from_under(part: str, arrays: Arrays) -> dict[str, Array]:
    """The arrays that were put `under` a part, by their old names."""
    start = f"{part}."
    return {
        name.removeprefix(start): array
        for name, array in arrays.items()
        if name.startswith(start)
    }


def moved(new: Arrays, old: Arrays) -> dict[str, Array]:
    """How far arrays have moved; integers are left out."""
    return {
        name: array - old[name]
        for name, array in new.items()
        if np.issubdtype(array.dtype, np.floating)
    }


def mixed(share: float, mine: Arrays, others: Arrays) -> dict[str, Array]:
    """share * mine + (1 - share) * others; integers are mine."""
    left, right = np.float32(share), np.float32(1 - share)
    return {
        name: left * array + right * others[name]
        if np.issubdtype(array.dtype, np.floating)
        else array
        for name, array in mine.items()
    }
