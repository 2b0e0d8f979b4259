"""What a board keeps of its clients: one folder per client and round, whole or absent.

<folder>/client-<id>/step-<round>/state.safetensors    what the client goes on from
                                  update.safetensors   what goes to the server
                                  step.json            digests of both, and counts of stage L2
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import msgspec

from common.arrays import Array, Arrays
from common.codec import blob_digest, decode_tensors, encode_tensors
from common.errors import ProtocolError, StoreError
from common.messages import Count, Natural, Text, Wire
from common.storage import disk_errors, remove_leftovers, write_folder

log = logging.getLogger(__name__)


class StepRecord(Wire, frozen=True, kw_only=True):
    """What a step consists of."""

    run: Text
    round: Natural
    client: Natural
    state: Text
    update: Text
    counts: Count | None
    union: Count | None = None


class _StateMeta(Wire, frozen=True, kw_only=True):
    run: Text
    round: Natural
    client: Natural


class StepStore:
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
    ) -> None:
        """Keep a client's new state and its update together, in one atomic step."""
        kept = encode_tensors(state, _StateMeta(run=self.run, round=number, client=client))
        record = StepRecord(
            run=self.run,
            round=number,
            client=client,
            state=blob_digest(kept),
            update=blob_digest(update),
            counts=counts,
            union=union,
        )
        files = {
            "state.safetensors": kept,
            "update.safetensors": update,
            "step.json": msgspec.json.encode(record),
        }
        write_folder(self._path(client, number), files)

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
            shutil.rmtree(self._path(client, number), ignore_errors=True)
            return False
        return True

    def update(self, client: int, number: int) -> bytes:
        """The update of a step, as it goes to the server."""
        record = self.record(client, number)
        return self._read(client, number, "update.safetensors", record.update)

    def state(self, client: int, number: int) -> dict[str, Array]:
        """The client's state after a step."""
        record = self.record(client, number)
        try:
            data = self._read(client, number, "state.safetensors", record.state)
            return decode_tensors(data, _StateMeta)[0]
        except ProtocolError as error:
            raise StoreError(f"{self._path(client, number)}: {error}") from error

    def record(self, client: int, number: int) -> StepRecord:
        """What a step consists of."""
        path = self._path(client, number) / "step.json"
        try:
            record = msgspec.json.decode(path.read_bytes(), type=StepRecord)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise StoreError(f"{path} is damaged: {error}") from error
        if (record.run, record.client, record.round) != (self.run, client, number):
            raise StoreError(f"{path} belongs to another step")
        return record

    def _read(self, client: int, number: int, name: str, expected: str) -> bytes:
        path = self._path(client, number) / name
        with disk_errors(path):
            data = path.read_bytes()
        if blob_digest(data) != expected:
            raise StoreError(f"{path} is damaged: its digest differs from the recorded one")
        return data

    def prune(self, client: int, keep: frozenset[int]) -> None:
        """Delete all steps of a client but these."""
        for number in self.rounds(client) - keep:
            shutil.rmtree(self._path(client, number), ignore_errors=True)

    def _path(self, client: int, number: int) -> Path:
        return self.folder / f"client-{client:06d}" / f"step-{number:06d}"
