"""The model of the newest round, on its way through a relay."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

from common.disk.atomic import disk_errors
from common.errors import ProtocolError
from common.wire.assembly import SMALL, Assembly
from common.wire.chunks import cut
from common.wire.messages import Chunk
from common.wire.topics import Packet, packet, weights_topic

log = logging.getLogger(__name__)


class PassingModel:
    """At most one incomplete and one complete model; they need not survive a restart."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "model.safetensors"
        self._part = folder / "model.part"
        self._open: Assembly | None = None
        self._complete = ("", 0)
        self._sent_parts = 0
        with disk_errors(folder):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)

    def add(self, chunk: Chunk) -> bool:
        """Take one part; True when it completes its model."""
        header = chunk.header
        if (header.run, header.round) == self._complete:
            return False
        if self._open is None or not self._open.fits(header):
            self._open = Assembly(self._part, header, in_memory=header.size <= SMALL)
        if not self._open.add(chunk):
            return False
        whole, self._open = self._open, None
        try:
            whole.take()
            whole.keep(self._path)
        except ProtocolError as error:
            log.warning("round %d of %s: %s", header.round, header.run, error)
            whole.discard()
            return False
        self._complete = (header.run, header.round)
        return True

    @property
    def run(self) -> str:
        """The run whose model is here."""
        return self._complete[0]

    def read(self) -> bytes:
        """The complete model."""
        with disk_errors(self._path):
            return self._path.read_bytes()

    def packets(self, federation: str) -> Iterator[Packet]:
        """Its parts for the site's boards."""
        run, round_number = self._complete
        for chunk in cut(
            self.read(), run=run, round_number=round_number, client=None, down=True
        ):
            self._sent_parts = max(self._sent_parts, chunk.header.parts)
            yield packet(federation, chunk)

    def clearing(self, federation: str) -> Iterator[Packet]:
        """What deletes the parts that the site's broker keeps."""
        for part in range(self._sent_parts):
            yield Packet(weights_topic(federation, part), b"", retain=True)
        self._sent_parts = 0
