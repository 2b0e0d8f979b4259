"""What a board keeps of its clients: one file per client and round, whole or absent.

<folder>/client-<id>/step-<round>   a line of JSON: digests and lengths of what follows, counts
                                    the update, which goes to the server
                                    the state that the client goes on from
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import msgspec

from common.arrays import Array, Arrays
from common.disk.atomic import disk_errors, remove_leftovers, write_atomic
from common.errors import ProtocolError, StoreError
from common.wire.chunks import blob_digest
from common.wire.json_codec import decodable, decoder
from common.wire.messages import Count, Natural, Text, Wire
from common.wire.tensors import decode_tensors, encode_tensors

MAX_RECORD = 64 * 1024

log = logging.getLogger(__name__)


@decodable
class SnapshotRecord(Wire, frozen=True, kw_only=True):
    """What a step consists of."""

    run: Text
    round: Natural
    client: Natural
    state: Text
    state_bytes: Natural
    update: Text
    update_bytes: Natural
    counts: Count | None
    union: Count | None = None


@decodable
class _StateMeta(Wire, frozen=True, kw_only=True):
    run: Text
    round: Natural
    client: Natural


class SnapshotStore:
    """The steps of one run's clients on one board."""

    def __init__(self, folder: Path, run: str) -> None:
        self.folder = folder
        self.run = run

    def write(
        self,
        client: int,
        number: int,
        *,
        state: Arrays,
        update: bytes,
        counts: Count | None,
        union: Count | None = None,
        durable: bool = True,
    ) -> None:
        """Keep a client's new state and its update together; a step that is there stays."""
        kept = encode_tensors(state, _StateMeta(run=self.run, round=number, client=client))
        record = SnapshotRecord(
            run=self.run,
            round=number,
            client=client,
            state=blob_digest(kept),
            state_bytes=len(kept),
            update=blob_digest(update),
            update_bytes=len(update),
            counts=counts,
            union=union,
        )
        path = self.path(client, number)
        if not path.exists():
            line = msgspec.json.encode(record) + b"\n"
            write_atomic(path, line, update, kept, durable=durable)

    def scan(self) -> dict[int, frozenset[int]]:
        """Client -> rounds whose step is whole; what is damaged is discarded, and said."""
        found: dict[int, frozenset[int]] = {}
        with disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(self.folder)
            for home in sorted(self.folder.glob("client-*")):
                name = home.name.removeprefix("client-")
                if name.isdecimal():
                    client = int(name)
                    rounds = self.rounds(client)
                    found[client] = frozenset(n for n in rounds if self._is_whole(client, n))
        return found

    def rounds(self, client: int) -> frozenset[int]:
        """The rounds a client has a step of, whole or not."""
        home = self.folder / f"client-{client:06d}"
        names = (path.name.removeprefix("step-") for path in home.glob("step-*"))
        return frozenset(int(name) for name in names if name.isdecimal())

    def _is_whole(self, client: int, number: int) -> bool:
        try:
            self.update(client, number)
            self.state(client, number)
        except StoreError as error:
            log.warning("discarded %s", error)
            self._remove(client, number)
            return False
        return True

    def update(self, client: int, number: int) -> bytes:
        """The update of a step, as it goes to the server."""
        return self.outgoing(client, number, verify=True)[0]

    def outgoing(self, client: int, number: int, *, verify: bool) -> tuple[bytes, str]:
        """The update of a step, and its digest."""
        record, place = self._record(client, number)
        expected = record.update if verify else ""
        blob = self._read(client, number, place, record.update_bytes, expected)
        return blob, record.update

    def state(self, client: int, number: int) -> dict[str, Array]:
        """The client's state after a step."""
        record, place = self._record(client, number)
        place += record.update_bytes
        data = self._read(client, number, place, record.state_bytes, record.state)
        try:
            return decode_tensors(data, _StateMeta)[0]
        except ProtocolError as error:
            raise StoreError(f"{self.path(client, number)}: {error}") from error

    def record(self, client: int, number: int) -> SnapshotRecord:
        """What a step consists of."""
        return self._record(client, number)[0]

    def _record(self, client: int, number: int) -> tuple[SnapshotRecord, int]:
        """What a step consists of, and where that begins."""
        path = self.path(client, number)
        try:
            with path.open("rb") as file:
                line = file.readline(MAX_RECORD)
            record = decoder(SnapshotRecord).decode(line)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise StoreError(f"{path} is damaged: {error}") from error
        if (record.run, record.client, record.round) != (self.run, client, number):
            raise StoreError(f"{path} belongs to another step")
        return record, len(line)

    def _read(self, client: int, number: int, place: int, size: int, expected: str) -> bytes:
        path = self.path(client, number)
        with disk_errors(path), path.open("rb") as file:
            file.seek(place)
            data = file.read(size)
        if len(data) != size or (expected and blob_digest(data) != expected):
            raise StoreError(f"{path} is damaged: its digest differs from the recorded one")
        return data

    def prune(self, client: int, keep: frozenset[int]) -> None:
        """Delete all steps of a client but these."""
        for number in self.rounds(client) - keep:
            self._remove(client, number)

    def _remove(self, client: int, number: int) -> None:
        path = self.path(client, number)
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def path(self, client: int, number: int) -> Path:
        """The file of a step."""
        return self.folder / f"client-{client:06d}" / f"step-{number:06d}"
