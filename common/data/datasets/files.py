"""Files of datasets: where they are, plain or compressed, and whether they are undamaged."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from pathlib import Path
from typing import Literal

from common.errors import DataError

PIECE = 1 << 20


def find_file(folder: Path, name: str) -> Path | None:
    """Where the file is in this folder, plain or compressed."""
    candidates = (folder / name, folder / f"{name}.gz")
    return next((path for path in candidates if path.is_file()), None)


def require_file(folder: Path, name: str) -> Path:
    """Where the file is in this folder; an error if it has vanished."""
    path = find_file(folder, name)
    if path is None:
        raise DataError(f"{folder / name} is missing")
    return path


def read_at_most(path: Path, most: int) -> bytes:
    """The uncompressed content; of a longer file only the first `most` bytes."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            return stream.read(most)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def read_checked(path: Path, kind: Literal["md5", "sha256"], expected: str) -> bytes:
    """The content of a file whose digest is known."""
    check_digest(path, kind, expected)
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def check_digest(path: Path, kind: Literal["md5", "sha256"], expected: str) -> None:
    """Refuse a file with another digest; large files are read piece by piece."""
    state = hashlib.new(kind, usedforsecurity=False)
    try:
        with path.open("rb") as stream:
            while piece := stream.read(PIECE):
                state.update(piece)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if state.hexdigest() != expected:
        raise DataError(
            f"{path} is damaged: its {kind} is {state.hexdigest()}; expected {expected}"
        )
