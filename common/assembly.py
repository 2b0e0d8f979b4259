"""Tensor blobs put together from their chunks, in a file, whatever order the chunks come in.

Memory is bounded: parts go straight to disk, and only as many blobs are open as the owner lets.
"""

from __future__ import annotations

from pathlib import Path

from common.codec import CHUNK, blob_digest
from common.errors import ProtocolError
from common.messages import Chunk, ChunkHeader
from common.storage import disk_errors


class Assembly:
    """One blob on its way; `add` says when it is complete."""

    def __init__(self, path: Path, header: ChunkHeader) -> None:
        self.path = path
        self.header = header
        self._missing = set(range(header.parts))
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
        """Take one part; True when no part is missing any more."""
        part = chunk.header.part
        if part in self._missing:
            with disk_errors(self.path), self.path.open("r+b") as file:
                file.seek(part * CHUNK)
                file.write(chunk.body)
            self._missing.discard(part)
        return not self._missing

    def take(self) -> bytes:
        """The complete blob; ProtocolError if its digest is not the announced one."""
        with disk_errors(self.path):
            data = self.path.read_bytes()
        if blob_digest(data) != self.header.digest:
            raise ProtocolError("the parts do not make the announced blob (digests differ)")
        return data

    def discard(self) -> None:
        """Forget the blob and its file."""
        self.path.unlink(missing_ok=True)
