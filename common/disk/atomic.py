"""Files that are whole or absent: atomic writes, folder locks.

Every write goes to a temporary neighbour, is flushed to the disk, renamed into place, and the
folder is flushed. Whoever reads never sees half a file, whenever the power went. Only what
somebody can make again is written without flushing, with a digest that tells if it is whole.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path
from types import TracebackType
from typing import IO

from common.errors import StoreError

TEMPORARY = ".tmp"


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn an OSError around a path into a StoreError that says what to do."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path}: {explain(error)}") from error


def explain(error: OSError) -> str:
    """What an operating-system error means to the person who has to repair it."""
    hints = {
        errno.ENOSPC: "the disk is full; free some space, then start again: nothing is lost",
        errno.EDQUOT: "the disk quota is used up; free some space, then start again",
        errno.EACCES: "permission denied; choose a folder you may write to",
        errno.EROFS: "the file system is read-only; choose another folder",
        errno.ENOTDIR: "a file is in the way of a folder; choose another folder",
    }
    return hints.get(error.errno or 0, (error.strerror or str(error)).lower())


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries, where the system can do that."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush(path: Path) -> None:
    """Bring a file and its name to the disk."""
    with path.open("r+b") as file:
        os.fsync(file.fileno())
    sync_folder(path.parent)


def write_atomic(path: Path, *pieces: bytes, durable: bool = True) -> None:
    """Replace a file: afterwards it is the old one or the new one, never a part.

    What is not `durable` survives the death of this process, but perhaps not a power cut: then
    it may be anything, so whoever reads it must be able to tell.
    """
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f"{path.name}{TEMPORARY}{os.getpid()}")
        try:
            with beside.open("wb", buffering=0) as file:
                for piece in pieces:
                    write_all(file, piece)
                if durable:
                    os.fsync(file.fileno())
            beside.replace(path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
        if durable:
            sync_folder(path.parent)


def write_all(file: RawIOBase, data: bytes | memoryview) -> None:
    """Write all of it to an unbuffered file."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) or 0 :]


def remove_leftovers(folder: Path) -> None:
    """Delete what interrupted writes left behind; only whoever holds the folder's lock may."""
    for path in folder.rglob(f"*{TEMPORARY}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


class FolderLock:
    """One process at a time per folder; the lock goes away with its process."""

    def __init__(self, folder: Path, purpose: str) -> None:
        self._path = folder / "lock"
        self._purpose = purpose
        self._file: IO[str] | None = None

    def __enter__(self) -> FolderLock:
        with disk_errors(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = self._path.open("a+")
        if not _try_lock(file):
            file.seek(0)
            holder = file.read().strip() or "another process"
            file.close()
            raise StoreError(f"{self._path.parent} is in use by {holder}; stop that one first")
        file.truncate(0)
        file.write(f"{self._purpose} (process {os.getpid()})")
        file.flush()
        self._file = file
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: IO[str]) -> bool:
        file.seek(1 << 20)  # a locked byte cannot be read, so one behind the holder's name
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(file: IO[str]) -> bool:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
