"""Tensor blobs put together from their chunks, whatever order the chunks come in.

Memory is bounded: parts of large blobs go straight to disk, and the owner decides how many
small ones may be in memory. Their digest is computed while the next part is on its way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from common.disk.atomic import disk_errors, write_all
from common.errors import ProtocolError
from common.side_thread import Later, beside
from common.wire.chunks import CHUNK, blob_digest, name_of
from common.wire.messages import Chunk, ChunkHeader

SMALL = 4 * 1024 * 1024
R = TypeVar("R")


class Assembly:
    """One incoming blob: in memory until it is complete, or from the start in the file `path`.

    `take` and then `keep` make a file of its own of it.
    """

    def __init__(self, path: Path, header: ChunkHeader, *, in_memory: bool) -> None:
        self.header = header
        self.in_memory = in_memory
        self._path = path
        self._missing = set(range(header.parts))
        self._bodies: dict[int, bytes | memoryview] = {}
        self._digest = _RunningDigest()
        if not in_memory:
            self._write(b"")

    def fits(self, header: ChunkHeader) -> bool:
        """Whether a chunk is a part of this very blob."""
        mine = self.header
        return (
            header.run == mine.run
            and header.round == mine.round
            and header.client == mine.client
            and header.digest == mine.digest
            and header.size == mine.size
        )

    def add(self, chunk: Chunk) -> bool:
        """Add one part; True when no part is missing any more."""
        part = chunk.header.part
        if part in self._missing:
            if self.in_memory:
                self._bodies[part] = chunk.body
                self._digest.add(part, chunk.body)
            else:
                with disk_errors(self._path), self._path.open("r+b", buffering=0) as file:
                    file.seek(part * CHUNK)
                    write_all(file, chunk.body)
            self._missing.discard(part)
        return not self._missing

    def take(self) -> bytes:
        """The complete blob; ProtocolError if its digest is not the announced one."""
        known = ""
        if self.in_memory:
            data = b"".join(self._bodies[part] for part in sorted(self._bodies))
            self._bodies.clear()
            self._write(data)  # while the digest is computed
            known = self._digest.result(self.header.parts)
        else:
            with disk_errors(self._path):
                data = self._path.read_bytes()
        if (known or blob_digest(data)) != self.header.digest:
            raise ProtocolError("the parts do not make the announced blob (digests differ)")
        return data

    def keep(self, path: Path) -> None:
        """Store the blob, after `take`, as a file of this name on the same disk."""
        with disk_errors(path):
            _with_folder(path, self._path.replace)

    def _write(self, data: bytes) -> None:
        """Start the file; until `keep` it has a name under which nobody looks for it."""
        with disk_errors(self._path):
            file = _with_folder(self._path, lambda path: path.open("wb", buffering=0))
            with file:
                write_all(file, data)

    def discard(self) -> None:
        """Drop the blob and its file."""
        self._bodies.clear()
        self._path.unlink(missing_ok=True)


def _with_folder(path: Path, do: Callable[[Path], R]) -> R:
    """Do something that needs the folder of a file, which is made if it is not there."""
    try:
        return do(path)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return do(path)


class _RunningDigest:
    """The digest of parts that come in their order, computed beside who adds them."""

    def __init__(self) -> None:
        self._state = hashlib.sha256()
        self._count = 0
        self._last: Later[None] | None = None

    def add(self, part: int, body: bytes | memoryview) -> None:
        """Take a part, if it is the next one."""
        if part == self._count:
            self._count += 1
            self._last = beside(self._state.update, body)

    def result(self, parts: int) -> str:
        """The digest; empty if not all parts have come in their order."""
        if self._count < parts or self._last is None:
            return ""
        self._last.result()
        return name_of(self._state)
