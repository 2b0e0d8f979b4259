"""Tensor blobs put together from their chunks, whatever order the chunks come in.

Memory is bounded: parts of large blobs go straight to disk, and the owner decides how many
small ones may be in memory.
"""

from __future__ import annotations

from pathlib import Path

from common.disk.atomic import disk_errors, write_all, write_atomic
from common.errors import ProtocolError
from common.wire.chunks import CHUNK, blob_digest
from common.wire.messages import Chunk, ChunkHeader

SMALL = 4 * 1024 * 1024


class Assembly:
    """One incoming blob, in memory or in the file `path`; `add` returns when it is complete."""

    def __init__(self, path: Path, header: ChunkHeader, *, in_memory: bool) -> None:
        self.header = header
        self.in_memory = in_memory
        self._path = path
        self._missing = set(range(header.parts))
        self._bodies: dict[int, bytes | memoryview] = {}
        if not in_memory:
            with disk_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"")

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
            else:
                with disk_errors(self._path), self._path.open("r+b", buffering=0) as file:
                    file.seek(part * CHUNK)
                    write_all(file, chunk.body)
            self._missing.discard(part)
        return not self._missing

    def take(self) -> bytes:
        """The complete blob; ProtocolError if its digest is not the announced one."""
        if self.in_memory:
            data = b"".join(self._bodies[part] for part in sorted(self._bodies))
            self._bodies.clear()
        else:
            with disk_errors(self._path):
                data = self._path.read_bytes()
        if blob_digest(data) != self.header.digest:
            raise ProtocolError("the parts do not make the announced blob (digests differ)")
        return data

    def keep(self, path: Path, data: bytes) -> None:
        """Store the blob, after `take`, as a file of this name on the same disk."""
        if self.in_memory:
            write_atomic(path, data, durable=False)
        else:
            with disk_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                self._path.replace(path)

    def discard(self) -> None:
        """Drop the blob and its file."""
        self._bodies.clear()
        if not self.in_memory:
            self._path.unlink(missing_ok=True)
