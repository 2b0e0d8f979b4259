"""PURE: arrays in fewer bytes for the network, and back to float32.

float16  every float32 value as the nearest float16.
int8     every float32 array as whole numbers -127..127 times one scale, largest value / 127.

Both lose something; how little it matters is measured in docs/performance.md. All operations
round once and separately: the same bits on every processor.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from common.arrays import Array, Arrays
from common.errors import ProtocolError
from common.wire.messages import Encoding

LEVELS = 127
_LARGEST = float(np.finfo(np.float32).max)


def packed(arrays: Arrays, encoding: Encoding) -> tuple[dict[str, Array], dict[str, float]]:
    """Arrays as they are sent, and the scales of those that need one."""
    scales: dict[str, float] = {}
    small = dict(arrays)
    for name, array in arrays.items():
        if array.dtype != np.float32:
            continue
        if encoding == "float16":
            with np.errstate(over="ignore"):  # too large becomes infinite, which is refused
                small[name] = array.astype(np.float16)
        elif (
            encoding == "int8" and np.isfinite(array).all()
        ):  # others are sent as they are, and refused
            small[name], scales[name] = _whole_numbers(array)
    return small, scales


def _whole_numbers(array: Array) -> tuple[Array, float]:
    scale = np.abs(array).max(initial=np.float32(0)) / np.float32(LEVELS)
    if scale == 0:
        return np.zeros(array.shape, np.int8), 0.0
    return np.rint(np.clip(array / scale, -LEVELS, LEVELS)).astype(np.int8), float(scale)


def unpacked(
    arrays: Arrays, encoding: Encoding, scales: Mapping[str, float]
) -> dict[str, Array]:
    """The float32 arrays again; ProtocolError if they are not what `packed` makes."""
    if not scales.keys() <= arrays.keys() or (scales and encoding != "int8"):
        raise ProtocolError("scales of arrays that are not there")
    full = dict(arrays)
    for name, array in arrays.items():
        if encoding == "float16" and array.dtype == np.float16:
            full[name] = array.astype(np.float32)
        elif name in scales:
            full[name] = _from_whole_numbers(name, array, scales[name])
    return full


def _from_whole_numbers(name: str, array: Array, scale: float) -> Array:
    if array.dtype != np.int8 or not 0 <= scale <= _LARGEST:
        raise ProtocolError(f"{name} is {array.dtype} with scale {scale}; expected int8")
    return np.asarray(np.multiply(array, np.float32(scale), dtype=np.float32))
