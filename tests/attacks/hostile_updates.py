"""Complete updates with right digests and hostile content: headers, metadata, values."""

from __future__ import annotations

import struct
from collections.abc import Callable

import msgspec
import numpy as np

from common.arrays import Array, Arrays
from common.wire.tensor_blob import TensorEntry
from common.wire.tensors import Stamp, UpdateMeta
from tests.attacks.extremes import Hostile
from tests.attacks.forging import Entry, forged_blob
from tests.attacks.type_values import Tree

VALUES = (
    *(np.nan, np.inf, -np.inf, 3.4e38, 1e38, 1e15, 1.0000001e15, -1e15, -0.0, 1e-45, 0.0),
    *(65504.0, 65520.0),
)
LENGTHS = (b"9" * 4300, b"9" * 400, b"9223372036854775807", b"1099511627776", b"9", b"10")
KINDS = (np.float64, np.float16, np.int64, np.int32, np.int16, np.int8, np.uint8, np.bool_)


class HostileUpdates:
    """Made of an honest model; `poisoned` ones can never be used, whatever else they have."""

    def __init__(self, hostile: Hostile, model: Arrays, *, poisoned: bool) -> None:
        self._hostile = hostile
        self._model = model
        self._poisoned = poisoned
        self._ways: tuple[Callable[[dict[str, Array]], dict[str, Array]], ...] = (
            *(self._as_they_are, self._with_a_value, self._of_another_kind),
            *(self._of_another_shape, self._more, self._fewer, self._one),
        )

    def blob(self, known: dict[str, Tree]) -> bytes:
        """One update of the job that `known` names."""
        hostile = self._hostile
        arrays = self._ways[hostile.pick(len(self._ways))](dict(self._model))
        if self._poisoned:
            arrays = self._poison(arrays)
        right = {"weights": {"base": 1.0, "head": 1.0}, "samples": 7, "values": {}}
        meta = hostile.message(UpdateMeta, {**known, **right})
        stamp = b""
        if hostile.chance(0.2):
            raw = msgspec.Raw(meta)
            signed = {"encoding": "float32", "meta": raw, "scales": {}}
            stamp = hostile.message(Stamp, signed)
        blob = forged_blob(arrays, meta, stamp=stamp, twist=self._twist)
        if hostile.chance(0.05):
            length = (0, 1, 8, 2**31, 2**63, 2**64 - 1, len(blob))[hostile.pick(7)]
            blob = struct.pack("<Q", length) + blob[8:]
        if hostile.chance(0.05):
            blob = blob[: hostile.pick(len(blob))]
        return blob

    def _twist(self, entries: dict[str, Entry]) -> None:
        if len(entries) == 1:  # lengths that agree with each other
            length = LENGTHS[self._hostile.pick(len(LENGTHS))]
            text = b'{"dtype":"U8","shape":[%b],"data_offsets":[0,%b]}' % (length, length)
            entries.update(dict.fromkeys(entries, text))
        elif entries and self._hostile.chance(0.3):
            name = list(entries)[self._hostile.pick(len(entries))]
            honest = entries[name]
            assert isinstance(honest, dict)
            entries[name] = self._hostile.message(TensorEntry, honest)

    def _poison(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """Not a number in every array, so that none can do."""
        return {
            name: np.full_like(array, np.nan)
            if np.issubdtype(array.dtype, np.floating)
            else array
            for name, array in arrays.items()
        }

    def _as_they_are(self, arrays: dict[str, Array]) -> dict[str, Array]:
        return arrays

    def _with_a_value(self, arrays: dict[str, Array]) -> dict[str, Array]:
        value = VALUES[self._hostile.pick(len(VALUES))]
        return {name: np.full_like(array, value) for name, array in arrays.items()}

    def _of_another_kind(self, arrays: dict[str, Array]) -> dict[str, Array]:
        kind = KINDS[self._hostile.pick(len(KINDS))]
        return {name: np.zeros(array.shape, kind) for name, array in arrays.items()}

    def _of_another_shape(self, arrays: dict[str, Array]) -> dict[str, Array]:
        shapes = ((), (0,), (0, 2**20), (1,) * 32, (3, 0, 5), (2,))
        shape = shapes[self._hostile.pick(len(shapes))]
        return {name: np.zeros(shape, array.dtype) for name, array in arrays.items()}

    def _more(self, arrays: dict[str, Array]) -> dict[str, Array]:
        names = ("x" * 5000, "", "__metadata__ ", "base.\u202e", "\x1b[31m", "head.../..")
        return {**arrays, names[self._hostile.pick(len(names))]: np.zeros(3, np.float32)}

    def _one(self, arrays: dict[str, Array]) -> dict[str, Array]:
        return {next(iter(arrays)): np.zeros(9, np.uint8)}

    def _fewer(self, arrays: dict[str, Array]) -> dict[str, Array]:
        return dict(list(arrays.items())[: self._hostile.pick(len(arrays))])
