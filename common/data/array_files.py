"""Files of named arrays that contain their own name and digest, so that damage is noticed."""

from __future__ import annotations

from pathlib import Path

import safetensors
import safetensors.numpy

from common.arrays import Array, Arrays, digest
from common.disk.atomic import write_atomic
from common.errors import DataError


def write_arrays(path: Path, arrays: Arrays) -> None:
    """Write a file for this place: folder and name are in it."""
    # one entry only: safetensors writes several in any order, and the bytes must be the same
    about = {"digest": f"{digest(arrays)} {_name(path)}"}
    write_atomic(path, safetensors.numpy.save(dict(arrays), about))


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays of a file, if they are those that were written to this place."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            about = file.metadata() or {}
            arrays: dict[str, Array] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (OSError, safetensors.SafetensorError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    written, _, name = about.get("digest", "").partition(" ")
    if digest(arrays) != written:
        raise DataError(f"{path} is damaged: its content is not what was written")
    if name != _name(path):
        raise DataError(f"{path} is in the wrong place: it was written as {name}")
    return arrays


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"
