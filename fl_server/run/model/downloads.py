"""The models that boards get: the newest as a blob, and those that updates started from."""

from __future__ import annotations

from common.arrays import Array, Arrays
from common.config import Experiment
from common.data.reported import LocalData
from common.experiment.resolve import buffers_of, server_of
from common.side_thread import Later, beside
from common.wire.assembly import SMALL
from common.wire.chunks import blob_digest
from common.wire.tensors import ModelMeta, UpdateMeta, decode_tensors, encode_tensors
from fl_server.run.model.stale import put_onto
from fl_server.run.server_half import ServerHalf
from fl_server.run.store import RunStore


class Downloads:
    """What is made of the server's state for the clients of the open round."""

    def __init__(
        self, store: RunStore, experiment: Experiment, half: ServerHalf, local: LocalData
    ) -> None:
        self._store = store
        self._experiment = experiment
        self._encoding = experiment.communication.encoding
        self._half = half
        self._local = local
        self._state: Arrays = {}
        self._round = 0
        self._blob = b""
        self.digest = ""  # of the blob, if it is known
        self._coming: Later[tuple[bytes, str]] | None = None
        self._sent: dict[int, Arrays] = {}

    def renew(self, state: Arrays, round_number: int) -> None:
        """This state makes the download of this round."""
        self._state, self._round = state, round_number
        self.forget()

    def forget(self) -> None:
        """Free the memory of what can be made again."""
        oldest = self._round - self._experiment.aggregation.max_staleness
        self._sent = {at: a for at, a in self._sent.items() if oldest <= at < self._round}
        self._blob, self.digest, self._coming = b"", "", None

    def prepare(self) -> None:
        """Make the blob of a small model beside what else is done before its round."""
        if sum(array.nbytes for array in self._state.values()) <= SMALL:
            self._coming = beside(self._make_with_digest)

    @property
    def broadcast(self) -> Arrays:
        """The download of all clients, as it is made."""
        return self._half.broadcast(self._state)

    def blob(self, round_number: int) -> bytes:
        """The download of all clients, as it is sent."""
        assert round_number == self._round, "a round downloads what the last one made"
        if self._coming is not None:
            (self._blob, self.digest), self._coming = self._coming.result(), None
        self._blob = self._blob or self._make()
        return self._blob

    def _make(self) -> bytes:
        meta = ModelMeta(
            run=self._store.run, round=self._round, statistics=self._local.statistics
        )
        return encode_tensors(self.broadcast, meta, self._encoding)

    def _make_with_digest(self) -> tuple[bytes, str]:
        blob = self._make()
        return blob, blob_digest(blob)

    def private(self, round_number: int, client: int) -> bytes | None:
        """What one selected client gets in a round besides, if the algorithm has that."""
        if not self._half.has_private:
            return None
        sent = self.sent(round_number)
        server = server_of(self._experiment, round_number=round_number, download=sent)
        arrays = self._half.private(server, self._state, client)
        meta = ModelMeta(run=self._store.run, round=round_number)
        return encode_tensors(arrays, meta, self._encoding)

    def sent(self, round_number: int) -> Arrays:
        """The download of a round as its clients see it, which may have lost something."""
        newest = round_number == self._round
        if newest and self._encoding == "float32":
            return self.broadcast
        if round_number not in self._sent:
            blob = self.blob(round_number) if newest else self._older(round_number)
            self._sent[round_number] = decode_tensors(blob, ModelMeta, self._encoding)[0]
        return self._sent[round_number]

    def _older(self, round_number: int) -> bytes:
        arrays = self._half.broadcast(self._store.load_state(round_number - 1))
        return encode_tensors(arrays, ModelMeta(run=self._store.run, round=0), self._encoding)

    def fresh(self, arrays: dict[str, Array], meta: UpdateMeta) -> dict[str, Array]:
        """An update as if it had started from the newest model."""
        settings = self._experiment.aggregation
        if not settings.buffer:
            return arrays
        return put_onto(
            self.sent(self._round),
            arrays,
            self.sent(meta.round),
            settings,
            staleness=self._round - meta.round,
            buffers=buffers_of(self._experiment),
        )
