"""Updates on their way to the coordinator, read from their snapshots when their turn comes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from common.errors import StoreError
from common.wire.chunks import cut
from common.wire.topics import Packet, packet
from common.worker.snapshot_store import SnapshotStore

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UpdateKey:
    """Names the stream of an update."""

    client: int
    round: int


class Outgoing:
    """Cuts updates into packets; snapshots that turn out to be damaged are in `lost`."""

    def __init__(self, federation: str) -> None:
        self.lost: list[UpdateKey] = []
        self._federation = federation

    def packets(
        self, store: SnapshotStore, update: UpdateKey, *, verify: bool
    ) -> Iterator[Packet]:
        """The parts of an update; nothing is read before the first one is asked for."""
        client_id, round_number = update.client, update.round
        try:
            blob, digest = store.outgoing(client_id, round_number, verify=verify)
        except StoreError as error:
            log.warning("discarded a snapshot: %s", error)
            self.discard(store, update)
            return
        for chunk in cut(
            blob, run=store.run, round_number=round_number, client=client_id, digest=digest
        ):
            yield packet(self._federation, chunk)

    def discard(self, store: SnapshotStore, update: UpdateKey) -> None:
        """Delete a snapshot that nobody can use; it is computed again."""
        store.prune(update.client, store.rounds(update.client) - {update.round})
        self.lost.append(update)
