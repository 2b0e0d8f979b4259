"""Updates on their way in: their parts are put together, some in memory, the rest on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from common.wire.assembly import SMALL, Assembly
from common.wire.messages import Chunk

NOBODY: Mapping[int, int] = {}
HELD_BYTES = 32 * 1024**2  # of small updates on their way


class Assemblies:
    """At most one incomplete update of every client; `part_path(client)` is its file."""

    def __init__(self, part_path: Callable[[int], Path]) -> None:
        self._part_path = part_path
        self._open: dict[int, Assembly] = {}

    def forget(self, but: Mapping[int, int] = NOBODY) -> None:
        """The round is over; those of some clients, of the rounds given, go on."""
        kept = {c: one for c, one in self._open.items() if but.get(c) == one.header.round}
        self._open = kept

    def add(self, client: int, chunk: Chunk) -> Assembly | None:
        """Take one part; the assembly, if no part is missing any more."""
        header = chunk.header
        assembly = self._open.get(client)
        if assembly is None or not assembly.fits(header):
            held = sum(a.header.size for a in self._open.values() if a.in_memory)
            small = header.size <= SMALL and held + header.size <= HELD_BYTES
            path = self._part_path(client)
            assembly = self._open[client] = Assembly(path, header, in_memory=small)
        if not assembly.add(chunk):
            return None
        return self._open.pop(client)
