"""Events as JSON lines: append while a run goes on, read whatever is whole afterwards."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from common.disk.atomic import disk_errors

Record: TypeAlias = Mapping[str, Any]  # JSON of many kinds; each reader knows its own


class Journal:
    """A JSON-lines file that only grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            _cut_torn_tail(path)
            self._file = path.open("ab", buffering=0)

    def append(self, record: Record | msgspec.Struct, *, sync: bool = False) -> None:
        """Write one line and hand it to the system at once (`sync`: to the disk).

        When the disk is full, no part of the line stays.
        """
        line = msgspec.json.encode(record) + b"\n"
        with disk_errors(self.path):
            start = self._file.tell()
            try:
                while line:
                    line = line[self._file.write(line) :]
            except OSError:
                self._file.truncate(start)
                self._file.seek(start)
                raise
            if sync:
                os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_records(path: Path) -> list[dict[str, Any]]:
    """All whole lines of a journal; a last line torn by a crash is left out."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    return [msgspec.json.decode(line) for line in lines[:-1] if line]


def read_last(path: Path) -> dict[str, Any] | None:
    """The last whole line of a journal; the others may be many."""
    if not path.exists():
        return None
    lines = path.read_bytes().rsplit(b"\n", 2)
    return msgspec.json.decode(lines[-2]) if len(lines) > 1 and lines[-2] else None


def _cut_torn_tail(path: Path) -> None:
    """Drop what a crash left behind the last whole line."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        data = file.read()
        file.truncate(data.rfind(b"\n") + 1)
