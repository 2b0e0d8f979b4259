"""CIFAR-10 and CIFAR-100: the official "python version".

The official files are pickles. They are never unpickled: `pickletools` lists their opcodes
without carrying out any of them, and labels and pixels are picked out of the arguments.
"""

from __future__ import annotations

import pickletools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from common.data.datasets.base import SamplePool
from common.data.datasets.files import read_checked, require_file
from common.errors import DataError

SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32

_KEY, _PIXELS, _LIST, _LABEL = "SHORT_BINSTRING", "BINSTRING", "EMPTY_LIST", "BININT1"
_BETWEEN_LABELS = {"BINPUT", "LONG_BINPUT", "MARK", "APPENDS"}
# all that the official files have; at GLOBAL, REDUCE and BUILD unpickling would call something
_OPCODES = {_KEY, _PIXELS, _LIST, _LABEL, *_BETWEEN_LABELS}
_OPCODES |= {"PROTO", "EMPTY_DICT", "BINGET", "LONG_BINGET", "BININT2", "BININT", "NONE"}
_OPCODES |= {"NEWFALSE", "TUPLE1", "TUPLE2", "TUPLE3", "TUPLE", "SETITEMS", "STOP"}
_OPCODES |= {"GLOBAL", "REDUCE", "BUILD"}


@dataclass(frozen=True, slots=True)
class CifarBatch:
    """An official file and its digest."""

    name: str
    md5: str
    samples: int


@dataclass(frozen=True, slots=True)
class CifarBatches:
    """The official files; `labels` is the name under which they hold the labels."""

    batches: tuple[CifarBatch, ...]
    labels: str

    @property
    def files(self) -> tuple[str, ...]:
        """The names of all files."""
        return tuple(batch.name for batch in self.batches)

    def read(self, folder: Path) -> SamplePool:
        """All samples."""
        parts = []
        for batch in self.batches:
            path = require_file(folder, batch.name)
            content = read_checked(path, "md5", batch.md5)
            parts.append(_labels_and_pixels(path, content, self.labels, batch.samples))
        labels, pixels = (np.concatenate(column) for column in zip(*parts, strict=True))
        return SamplePool(pixels.reshape(-1, *SHAPE), labels.astype(np.int64))


def _labels_and_pixels(
    path: Path, content: bytes, key: str, samples: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """What stands in the list behind `key`, and the one long string of bytes."""
    labels, pixels, inside = bytearray(), b"", False
    awaited = False  # a list of labels follows the key
    for opcode, argument in _opcodes(path, content):
        if opcode == _KEY:
            awaited, inside = argument == key, False
        elif opcode == _LIST:
            awaited, inside = False, awaited
        elif inside and opcode == _LABEL:
            labels.append(argument)
        elif opcode not in _BETWEEN_LABELS:
            awaited, inside = False, False
        if opcode == _PIXELS:
            pixels = argument.encode("latin-1")  # as which pickletools has read it
    if (len(labels), len(pixels)) != (samples, samples * PIXELS):
        raise DataError(
            f"{path} is damaged: it has {len(labels)} labels and {len(pixels)} bytes of "
            f"pixels; expected {samples} images"
        )
    return np.frombuffer(bytes(labels), np.uint8), np.frombuffer(pixels, np.uint8)


def _genops(content: bytes) -> Iterator[tuple[Any, Any, int | None]]:
    """As pickletools does it, without Python's warning of an escape in what is only noise."""
    steps = pickletools.genops(content)
    while True:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            found = next(steps, None)
        if found is None:
            return
        yield found


def _opcodes(path: Path, content: bytes) -> Iterator[tuple[str, Any]]:
    """Each opcode of a pickle with its argument; only those that the official files have."""
    try:
        for opcode, argument, place in _genops(content):
            if opcode.name not in _OPCODES:
                raise DataError(f"{path} is damaged: {opcode.name} at byte {place}")
            yield opcode.name, argument
    except ValueError as error:
        raise DataError(f"{path} is damaged: {error}") from error
