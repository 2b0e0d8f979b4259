"""A run's folder as bytes, and back: how runs travel to the workers of a cluster."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath

import msgspec

from common.disk.atomic import TEMPORARY, disk_errors, write_atomic
from common.errors import ProtocolError

LOCK = "lock"


def packed(folder: Path) -> bytes:
    """Every file of a folder, after a line of JSON with their names and sizes."""
    with disk_errors(folder):
        files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != LOCK and TEMPORARY not in path.name
        }
    head = msgspec.json.encode([(name, len(data)) for name, data in files.items()])
    return b"".join([head, b"\n", *files.values()])


def unpack(data: bytes, folder: Path) -> None:
    """Replace a folder by what was packed: it is the old one, absent for a moment, or the new
    one. A run that a power cut makes absent is computed again, with the same bits."""
    beside = folder.with_name(f".{folder.name}{TEMPORARY}new")
    before = folder.with_name(f".{folder.name}{TEMPORARY}old")
    with disk_errors(folder):
        for old in (beside, before):
            shutil.rmtree(old, ignore_errors=True)
        at = data.index(b"\n") + 1
        sizes = msgspec.json.decode(data[: at - 1], type=list[tuple[str, int]])
        for name, size in sizes:
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                raise ProtocolError(f"a run's folder has no file {name[:100]!r}")
            write_atomic(beside / name, data[at : at + size], durable=False)
            at += size
        if folder.exists():
            folder.replace(before)
        beside.replace(folder)
        shutil.rmtree(before, ignore_errors=True)
