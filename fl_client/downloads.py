"""Global models on their way to this board, and the newest complete ones, as files."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from common.assembly import Assembly
from common.errors import ProtocolError
from common.messages import Chunk
from common.storage import disk_errors

KEEP = 2

log = logging.getLogger(__name__)


class Downloads:
    """At most two models on their way and two complete; they need not survive a restart."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: list[Assembly] = []
        self._complete: list[tuple[str, int]] = []
        with disk_errors(folder):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)

    def add(self, chunk: Chunk) -> bool:
        """Take one part; True when it completes its model."""
        header = chunk.header
        if (header.run, header.round) in self._complete:
            return False
        assembly = next((a for a in self._open if a.fits(header)), None)
        if assembly is None:
            while len(self._open) >= KEEP:
                self._open.pop(0).discard()
            part = self._folder / f"{header.digest}.part"
            assembly = Assembly(part, header)
            self._open.append(assembly)
        if not assembly.add(chunk):
            return False
        self._open.remove(assembly)
        return self._finish(assembly)

    def _finish(self, assembly: Assembly) -> bool:
        header = assembly.header
        try:
            assembly.take()
        except ProtocolError as error:
            log.warning("round %d of %s: %s", header.round, header.run, error)
            assembly.discard()
            return False
        assembly.path.replace(self.path(header.run, header.round))
        self._complete.append((header.run, header.round))
        while len(self._complete) > KEEP:
            self.path(*self._complete.pop(0)).unlink(missing_ok=True)
        return True

    def path(self, run: str, number: int) -> Path:
        """Where the complete model of a round is."""
        return self._folder / f"{run}-{number:06d}.safetensors"
