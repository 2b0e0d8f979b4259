"""One process at a time per folder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import IO

from common.disk.atomic import disk_errors, explain
from common.errors import StoreError


class FolderLock:
    """Holds a folder for this process; the system releases it when the process dies.

    A second process is refused with the name of the first, or with `wait` comes after it.
    """

    def __init__(self, folder: Path, purpose: str, *, wait: bool = False) -> None:
        self._path = folder / "lock"
        self._purpose = purpose
        self._wait = wait
        self._file: IO[str] | None = None

    def __enter__(self) -> FolderLock:
        with disk_errors(self._path):
            # A folder that one process owns is nobody else's to read.
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # A link in place of the lock, in another user's folder, could lead to any file.
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
            file = os.fdopen(os.open(self._path, flags, 0o600), "a+")
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | (0 if self._wait else fcntl.LOCK_NB))
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            file.close()
            raise StoreError(
                f"{self._path.parent} is in use by {holder}; stop that one first"
            ) from None
        except OSError as error:  # a file system without locks
            file.close()
            raise StoreError(f"{self._path}: {explain(error)}") from error
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


def holder(folder: Path) -> str:
    """Who holds a folder now; empty if nobody does. Nothing is created or changed."""
    try:
        with (folder / "lock").open() as file:
            try:
                fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read().strip() or "another process"
    except OSError:  # never locked, or a file system without locks
        pass
    return ""
