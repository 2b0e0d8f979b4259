"""Files that are whole or absent, even after a power cut.

Every write goes to a temporary file beside the target, is flushed to the disk and renamed into
place; then the folder is flushed. A reader never sees half a file. Only what can be made again
is written without flushing, with a digest by which a reader recognises a damaged file.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path

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
    """An operating-system error in words that say what to do about it."""
    hints = {
        errno.ENOSPC: "the disk is full; free some space, then start again: nothing is lost",
        errno.EDQUOT: "the disk quota is used up; free some space, then start again",
        errno.EACCES: "permission denied; choose a folder you may write to",
        errno.ELOOP: "a symbolic link is in the way; remove it",
        errno.EROFS: "the file system is read-only; choose another folder",
        errno.ENOTDIR: "a file is in the way of a folder; choose another folder",
    }
    return hints.get(error.errno or 0, (error.strerror or str(error)).lower())


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush(path: Path) -> None:
    """Flush a file and its name to the disk."""
    with path.open("r+b") as file:
        os.fsync(file.fileno())
    sync_folder(path.parent)


def write_atomic(path: Path, *pieces: bytes, durable: bool = True, mode: int = 0o666) -> None:
    """Replace a file: afterwards it is the old one or the new one, never a part.

    Without `durable` the file survives the death of this process, but after a power cut it may
    hold anything, and its readers must be able to detect that. The new file has this `mode`,
    minus the umask, from the moment it exists.
    """
    write_named(path, lambda: path.name, *pieces, durable=durable, mode=mode)


def write_named(
    path: Path,
    name: Callable[[], str],
    *pieces: bytes,
    durable: bool = True,
    mode: int = 0o666,
) -> None:
    """The same for a file that gets its name at the end; until then `path` stands for it."""
    with disk_errors(path):
        beside = path.with_name(f"{path.name}{TEMPORARY}{os.getpid()}")
        try:
            with os.fdopen(_create(beside, mode), "wb", buffering=0) as file:
                for piece in pieces:
                    write_all(file, piece)
                if durable:
                    os.fsync(file.fileno())
            beside.replace(path.with_name(name()))
        except OSError:
            beside.unlink(missing_ok=True)
            raise
        if durable:
            sync_folder(path.parent)


def _create(path: Path, mode: int) -> int:
    """The descriptor of a new file; its folder is made, and a leftover removed, if need be."""
    how = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        return os.open(path, how, mode)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        path.unlink(missing_ok=True)  # a leftover may have another mode
    return os.open(path, how, mode)


def write_all(file: RawIOBase, data: bytes | memoryview) -> None:
    """Write all of it to an unbuffered file."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) or 0 :]


def remove_leftovers(folder: Path) -> None:
    """Delete what interrupted writes left behind; only the holder of the folder's lock may."""
    for path, folders, files in os.walk(folder, onerror=_vanished):
        for name in [name for name in folders if TEMPORARY in name]:
            shutil.rmtree(Path(path, name), ignore_errors=True)
        for name in [name for name in files if TEMPORARY in name]:
            Path(path, name).unlink(missing_ok=True)


def _vanished(error: OSError) -> None:
    """A folder that is deleted while others are looked through is no error."""
    if not isinstance(error, FileNotFoundError):
        raise error
