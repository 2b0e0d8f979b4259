"""The updates of a site's clients: put together, checked, kept on disk, added up, sent."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from common.disk.atomic import disk_errors
from common.errors import ProtocolError
from common.privacy.site_sums import as_sent
from common.wire.assembly import Assembly
from common.wire.chunks import cut
from common.wire.messages import Chunk
from common.wire.tensors import Member, SumMeta, encode_tensors
from common.wire.topics import Packet, packet
from fl_server.run.updates.assemblies import Assemblies
from fl_server.run.updates.files import Kind, UpdateFiles
from fl_server.run.updates.open_updates import Decoded, OpenUpdates
from fl_server.run.updates.site_sums import check_job
from fl_server.site.adding import Adding

_MEMBER = set(Member.__struct_fields__)

log = logging.getLogger(__name__)


class SiteUpdates:
    """The updates of one run; of the open round and no other."""

    def __init__(self, folder: Path, run: str, adding: Adding) -> None:
        self._run = run
        self._adding = adding
        self._folder = folder
        self._files = UpdateFiles(folder)
        self._round = 0
        self._assemblies = Assemblies(self._files.part_path)
        self._open_updates = OpenUpdates(self._load, adding.scale)

    def open_round(self, round_number: int) -> tuple[frozenset[int], frozenset[int]]:
        """Forget other rounds; who has an update on disk, and of whom no sum can hold it."""
        keep = self._files.folder(round_number)
        with disk_errors(self._folder):
            for path in self._folder.iterdir() if self._folder.exists() else ():
                if path != keep:
                    shutil.rmtree(path, ignore_errors=True)
        self._round = round_number
        self._assemblies.forget()
        self._open_updates.clear()
        odd = frozenset(self._files.safe(round_number, "odd"))
        stored = frozenset(self._files.safe(round_number)) - odd
        for client in sorted(stored):
            arrays, meta = self._load(client)
            self._open_updates.add(client, arrays, meta, 0)
        return stored | odd, odd

    def add(self, client: int, chunk: Chunk) -> Assembly | None:
        """Take one part of an update that is wanted; the assembly once it is complete."""
        return self._assemblies.add(client, chunk)

    def keep(self, client: int, assembly: Assembly) -> bool:
        """Verify an update and make it safe; True if no sum can hold it.

        Such a one goes up as it came, so that the coordinator judges it. ProtocolError, and
        nothing is kept, if it is not this client's update of this round.
        """
        blob = assembly.take()
        check_job(blob, (self._run, self._round, client))
        odd = not self._gather(client, blob)
        kind: Kind = "odd" if odd else "client"
        assembly.keep(self._files.path(self._round, client, assembly.header.digest, kind))
        return odd

    def _gather(self, client: int, blob: bytes) -> bool:
        """Add an update to the sum; False if it cannot be added."""
        try:
            arrays, meta = self._adding.decode(blob)
            self._adding.check(arrays, meta)
            self._open_updates.add(client, arrays, meta, len(blob))
        except ProtocolError as error:
            log.warning("the update of client %d goes up by itself: %s", client, error)
            return False
        return True

    def _load(self, client: int) -> Decoded:
        return self._adding.decode(self._files.load(self._round, client))

    def packets(
        self, federation: str, round_number: int, clients: tuple[int, ...]
    ) -> Iterator[Packet]:
        """The parts of the sum of these clients' updates, or of the one as it came.

        Nothing is made before the first part is asked for; none if the round is over by then.
        """
        if round_number != self._round:
            return
        blob = self._blob(clients)
        for chunk in cut(blob, run=self._run, round_number=round_number, client=clients[0]):
            yield packet(federation, chunk)

    def remove(self) -> None:
        """Forget the run."""
        self._round = 0
        shutil.rmtree(self._folder, ignore_errors=True)

    def _blob(self, clients: tuple[int, ...]) -> bytes:
        if len(clients) == 1:
            odd = clients[0] in self._files.safe(self._round, "odd")
            return self._files.load(self._round, clients[0], "odd" if odd else "client")
        total, metas = self._open_updates.total(clients)
        members = []
        for client in clients:
            said = msgspec.structs.asdict(metas[client])
            members.append(Member(**{name: said[name] for name in _MEMBER}))
        meta = SumMeta(
            run=self._run, round=self._round, client=clients[0], members=tuple(members)
        )
        return encode_tensors(as_sent(total), meta)
