"""Named arrays: .npz files, and what users' functions return."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from common.arrays import Array
from common.data.own.parts import Part, Source, brief
from common.errors import DataError
from common.plugins import user_errors

TEST = "test_"  # names of the test part begin with it
CLASSES = "classes"  # an array with their names


def read_npz(path: Path) -> Source:
    """An .npz file; nothing in it is unpickled."""
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path} is not an .npz file; expected what numpy.savez writes")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile, KeyError, AttributeError) as error:
        raise DataError(
            f"{path} cannot be read: {error}; expected what numpy.savez writes, without objects"
        ) from error
    return source_of(str(path), arrays)


def call_loader(name: str, function: Callable[..., object], folder: Path) -> Source:
    """What a user's function returns; it gets the folder that the data is in."""
    with user_errors(f"data.dataset is {name!r}", function):
        found = function(folder)
    if not isinstance(found, Mapping) or not all(isinstance(key, str) for key in found):
        raise DataError(
            f"data.dataset is {name!r}, which returned {type(found).__name__}; expected a dict "
            "of arrays by their names, such as {'x': ..., 'target': ...}"
        )
    return source_of(name, {key: _array(name, key, value) for key, value in found.items()})


def _array(name: str, key: str, value: object) -> Array:
    try:
        return np.asarray(value)
    except ValueError as error:  # a list whose members have different lengths
        raise DataError(
            f"data.dataset is {name!r}, whose {key!r} is no array: its samples have different "
            "shapes"
        ) from error


def source_of(where: str, arrays: Mapping[str, Array]) -> Source:
    """Arrays as a source: those of the test part have names that begin with `test_`."""
    classes = tuple(map(str, arrays[CLASSES].tolist())) if CLASSES in arrays else ()
    train = {n: a for n, a in arrays.items() if not n.startswith(TEST) and n != CLASSES}
    test = {n.removeprefix(TEST): a for n, a in arrays.items() if n.startswith(TEST)}
    if not train:
        raise DataError(f"{where} has no arrays; expected some inputs, and 'target'")
    if test and test.keys() != train.keys():
        odd = sorted(test.keys() ^ train.keys())
        raise DataError(f"{where} has {brief(odd)} in one part only; expected both or none")
    parts = [Part(where, train)]
    if test:
        ordered = {name: test[name] for name in train}
        parts.append(Part(f"{where} (test)", ordered))
    for part in parts:
        _check(part)
    return Source(tuple(parts), classes)


def _check(part: Part) -> None:
    lengths = {}
    for name, array in part.columns.items():
        if array.ndim == 0:
            raise DataError(f"{part.where}: {name} is a single value; expected one per sample")
        if array.dtype.kind not in "biufUS":
            raise DataError(
                f"{part.where}: {name} has {array.dtype}; expected numbers or texts"
            )
        lengths[name] = len(array)
    if len(set(lengths.values())) > 1:
        text = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise DataError(f"{part.where}: arrays have different lengths ({text}); expected one")
    if not next(iter(lengths.values())):
        raise DataError(f"{part.where} has no samples")
