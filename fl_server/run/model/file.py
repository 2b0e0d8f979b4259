"""A model as a plain safetensors file: the same arrays give the same bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy

from common.arrays import Array, Arrays
from common.disk.atomic import write_atomic
from common.errors import StoreError

NAME = "model.safetensors"


def write_model(path: Path, model: Arrays) -> None:
    """Nothing but the arrays, so that equal models are equal files."""
    arrays = {name: np.ascontiguousarray(model[name]) for name in sorted(model)}
    write_atomic(path, safetensors.numpy.save(arrays))


def read_model(path: Path) -> dict[str, Array]:
    """The arrays of a file."""
    try:
        return safetensors.numpy.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise StoreError(f"{path} cannot be read as safetensors: {error}") from error
