"""Downloads from the coordinator as files: incomplete ones and complete ones."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from common.disk.atomic import disk_errors
from common.errors import ProtocolError
from common.wire.assembly import SMALL, Assembly
from common.wire.messages import Chunk, ChunkHeader

KEEP = 2

log = logging.getLogger(__name__)


class Downloads:
    """At most two incomplete and two complete models; they need not survive a restart.

    Besides, for every client of this board, one incomplete and one complete download of its
    own, of the newest round only; of a secured round the newest step.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: list[Assembly] = []
        self._complete: list[tuple[str, int]] = []
        self._private_open: dict[int, Assembly] = {}
        self.private: dict[int, ChunkHeader] = {}  # of the complete download of each client
        with disk_errors(folder):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)

    def add(self, chunk: Chunk) -> bool:
        """Take one part; True when it completes its model."""
        header = chunk.header
        if header.client is not None:
            return self._add_private(chunk, header.client)
        if (header.run, header.round) in self._complete:
            return False
        assembly = next((a for a in self._open if a.fits(header)), None)
        if assembly is None:
            while len(self._open) >= KEEP:
                self._open.pop(0).discard()
            part = self._folder / f"{header.digest}.part"
            assembly = Assembly(part, header, in_memory=header.size <= SMALL)
            self._open.append(assembly)
        if not assembly.add(chunk):
            return False
        self._open.remove(assembly)
        return self._finish(assembly)

    def _add_private(self, chunk: Chunk, client_id: int) -> bool:
        header = chunk.header
        known = self.private.get(client_id)
        if (
            known is not None
            and header.run == known.run
            and (header.round < known.round or header.digest == known.digest)
        ):
            return False
        assembly = self._private_open.get(client_id)
        if assembly is None or not assembly.fits(header):
            if assembly is not None:
                assembly.discard()
            part = self._folder / f"{client_id}-{header.digest}.part"
            assembly = Assembly(part, header, in_memory=False)
            self._private_open[client_id] = assembly
        if not assembly.add(chunk):
            return False
        del self._private_open[client_id]
        if not _keep(assembly, self.private_path(header.run, header.round, client_id)):
            return False
        if known is not None and (known.run, known.round) != (header.run, header.round):
            self.private_path(known.run, known.round, client_id).unlink(missing_ok=True)
        self.private[client_id] = header
        return True

    def _finish(self, assembly: Assembly) -> bool:
        header = assembly.header
        if not _keep(assembly, self.path(header.run, header.round)):
            return False
        self._complete.append((header.run, header.round))
        while len(self._complete) > KEEP:
            self.path(*self._complete.pop(0)).unlink(missing_ok=True)
        return True

    def path(self, run: str, round_number: int) -> Path:
        """Where the complete model of a round is."""
        return self._folder / f"{run}-{round_number:06d}.safetensors"

    def private_path(self, run: str, round_number: int, client_id: int) -> Path:
        """Where the complete download of one client is."""
        return self._folder / f"{run}-{round_number:06d}-{client_id}.safetensors"


def _keep(assembly: Assembly, path: Path) -> bool:
    """Make a file of all parts; False if together they are not what was sent."""
    try:
        assembly.take()
        assembly.keep(path)
    except ProtocolError as error:
        header = assembly.header
        log.warning("round %d of %s: %s", header.round, header.run, error)
        assembly.discard()
        return False
    return True
