"""What a run has learnt: the algorithm's server half, its state on disk, and the metrics.

Both the coordinator and the simulation keep their run with this; how updates get here and when
a round closes is decided elsewhere.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import msgspec
import numpy as np

from common.algorithms.base import Update
from common.arrays import Array, Arrays, digest
from common.config import Experiment
from common.data.datasets import dataset_info
from common.disk.atomic import write_atomic
from common.disk.flusher import Flusher
from common.errors import ProtocolError, StrayUpdateError
from common.experiment.resolve import algorithm_of, server_of
from common.wire.assembly import SMALL, Assembly
from common.wire.chunks import blob_digest
from common.wire.messages import ClientMetrics, Info
from common.wire.tensors import (
    ModelMeta,
    UpdateMeta,
    check_arrays,
    decode_meta,
    decode_tensors,
    encode_tensors,
)
from fl_server.rounds.state import Close, Open
from fl_server.run.first_model import starting_model
from fl_server.run.journal import Journal, read_records
from fl_server.run.store import CheckpointMeta, RunStore
from fl_server.run.summary import summarize
from fl_server.run.tally import Tally, mean_loss, mean_values

RECENT_BYTES = 48 * 1024**2  # of small updates that aggregation need not read again
Line = dict[str, Any]  # one JSON object of metrics.jsonl
BY_CLIENT = "by_client"  # in a checkpoint, the line of clients.jsonl goes with that of metrics
SUMMARY = "summary.json"


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands on disk."""

    done: int
    accepted: dict[int, int]
    opened: Open | None
    safe: frozenset[int]


class Aggregator:
    """One run's server state, journal, metrics and events."""

    def __init__(self, store: RunStore, experiment: Experiment) -> None:
        self.store = store
        self.experiment = experiment
        self.tally = Tally()
        self.notes: tuple[str, ...] = ()  # about the first model
        self._opened = 0
        self._samples: dict[int, int] = {}  # what each client said first
        self._most_samples = dataset_info(experiment.data.dataset).size
        self._algorithm = algorithm_of(experiment)
        self._flusher = Flusher()
        self._download: tuple[int, bytes] | None = None
        self._base: tuple[int, Arrays] | None = None
        self._metrics = Journal(store.folder / "metrics.jsonl")
        self._written = {line["round"] for line in read_records(self._metrics.path)}
        self._clients = Journal(store.folder / "clients.jsonl")
        self._told = {line["round"] for line in read_records(self._clients.path)}
        self.events = Journal(store.folder / "events.jsonl")
        self._state, self._meta = self._load()
        expected = self._algorithm.expects(server_of(experiment), self._broadcast)
        self._expected = {name: _outline(array) for name, array in expected.items()}
        self._recent: dict[int, tuple[dict[str, Array], UpdateMeta]] = {}

    def _load(self) -> tuple[Arrays, CheckpointMeta]:
        found = self.store.load_checkpoint()
        if found is None:
            start = starting_model(self.experiment, self.store.folder)
            self.notes = start.notes
            state = self._algorithm.server_init(server_of(self.experiment), start.model)
            meta = CheckpointMeta(
                run=self.store.run, round=0, accepted={}, record={"round": 0}, previous={}
            )
            self.store.save_checkpoint(state, meta)
            return state, meta
        if found[1].previous:
            self._append(found[1].previous)
        return found

    def progress(self) -> Progress:
        """Where to go on."""
        number = self._meta.round + 1
        opened = self.store.opened(number)
        safe = self.store.safe_updates(number) if opened is not None else frozenset()
        return Progress(self._meta.round, dict(self._meta.accepted), opened, safe)

    def open_round(self, opened: Open) -> None:
        """Begin to add up a round; one that is opened again, for more clients, goes on."""
        self.store.open_round(opened)
        if self._opened != opened.number:
            self._opened = opened.number
            self.tally = Tally()

    def download(self, number: int) -> bytes:
        """The blob that boards get in a round."""
        assert number == self._meta.round + 1, "a round downloads what the last one made"
        if self._download is None or self._download[0] != number:
            meta = ModelMeta(run=self.store.run, round=number)
            encoding = self.experiment.communication.encoding
            self._download = (number, encode_tensors(self._broadcast, meta, encoding))
        return self._download[1]

    def private_download(self, number: int, client: int) -> bytes | None:
        """What one selected client gets in a round besides, if the algorithm has that."""
        if self._algorithm.private is None:
            return None
        server = server_of(self.experiment, round_number=number, download=self._sent(number))
        arrays = self._algorithm.private(server, self._state, client)
        meta = ModelMeta(run=self.store.run, round=number)
        return encode_tensors(arrays, meta, self.experiment.communication.encoding)

    @property
    def _broadcast(self) -> Arrays:
        return self._algorithm.broadcast(self._state)

    def _sent(self, number: int) -> Arrays:
        """The download of a round as its clients see it, which may have lost something."""
        encoding = self.experiment.communication.encoding
        if encoding == "float32":
            return self._broadcast
        if self._base is None or self._base[0] != number:
            self._base = (number, decode_tensors(self.download(number), ModelMeta, encoding)[0])
        return self._base[1]

    def _decode_update(self, blob: bytes) -> tuple[dict[str, Array], UpdateMeta]:
        return decode_tensors(blob, UpdateMeta, self.experiment.communication.encoding)

    @property
    def largest_update(self) -> int:
        """How many bytes an update may have."""
        return 4 * sum(array.nbytes for array in self._expected.values()) + 1024 * 1024

    def accept(
        self, number: int, client: int, blob: bytes, assembly: Assembly | None = None
    ) -> None:
        """Check an update and keep it; ProtocolError if it cannot be used.

        If it was put together by an assembly, its digest is known, and perhaps it has a file.
        """
        self._check_task(number, client, blob)
        arrays, meta = self._decode_update(blob)
        check_arrays(arrays, self._expected)
        if not all(math.isfinite(w) and w > 0 for w in meta.weights.values()):
            raise ProtocolError(f"weights {meta.weights} are not positive numbers")
        if not {name.split(".", 1)[0] for name in arrays} <= meta.weights.keys():
            raise ProtocolError("a part of the model has no weight")
        if meta.samples > self._most_samples:
            raise ProtocolError(
                f"{meta.samples} samples; the dataset has {self._most_samples} in all"
            )
        if meta.samples != self._samples.setdefault(client, meta.samples):
            known = self._samples[client]
            raise ProtocolError(f"{meta.samples} samples; the client had {known} before")
        if assembly is not None:
            path = self.store.update_path(number, client, assembly.header.digest)
            assembly.keep(path, blob)
        else:
            path = self.store.update_path(number, client, blob_digest(blob))
            write_atomic(path, blob, durable=False)
        held = sum(a.nbytes for arrays, _ in self._recent.values() for a in arrays.values())
        if len(blob) <= SMALL and held + len(blob) <= RECENT_BYTES:
            self._recent[client] = (arrays, meta)

    def update(self, number: int, client: int) -> tuple[dict[str, Array], UpdateMeta]:
        """A safe update of the open round: from memory if it is still there, else from disk."""
        if client in self._recent:
            return self._recent[client]
        return self._decode_update(self.store.load_update(number, client))

    def note_energy(self, info: Info) -> None:
        """Take the energy of a client's training in the open round."""
        if info.joules is not None and info.round == self._opened:
            self.tally.spend(info.client, info.joules)

    def _check_task(self, number: int, client: int, blob: bytes) -> None:
        try:
            meta = decode_meta(blob, UpdateMeta)
        except ProtocolError as error:
            raise StrayUpdateError(str(error)) from error
        if (meta.run, meta.round, meta.client) != (self.store.run, number, client):
            raise StrayUpdateError("the update belongs to another client, round or run")

    def count(self, metrics: ClientMetrics) -> None:
        """Take a client's counts for the open round."""
        self.tally.count(metrics)

    def close_round(self, close: Close, seconds: float) -> Line:
        """Aggregate, checkpoint, write metrics; returns the line of the model just tested."""
        accuracies = self.tally.accuracies(self.experiment.evaluation.epsilon)
        line = {**self._meta.record, **accuracies}
        whole = {**line, BY_CLIENT: self.tally.by_client()}
        if close.training:
            self._aggregate(close, seconds, whole)
        self._append(whole)
        self._recent.clear()
        self.store.close_round(close.number)
        return line

    def _aggregate(self, close: Close, seconds: float, line: Line) -> None:
        updates = _Updates(self, close.number, close.used)
        sent = self._sent(close.number)
        self._download = self._base = None  # memory for the sums
        began = time.monotonic()
        if close.used:
            server = server_of(self.experiment, round_number=close.number, download=sent)
            self._state = self._algorithm.server_update(server, self._state, updates)
        metas = updates.metas
        record: Line = {
            "round": close.number,
            "train_loss": mean_loss(metas),
            "updates": len(close.used),
            "clients": list(close.used),
            "dropped": list(close.dropped),
            "samples": sum(meta.samples for meta in metas),
            **({"values": values} if (values := mean_values(metas)) else {}),
            "seconds": round(seconds, 3),
            "train_seconds": round(sum(self.tally.trained.values()), 3),
            "aggregate_seconds": round(time.monotonic() - began, 3),
            "bytes_up": self.tally.bytes_up,
            "bytes_down": self.tally.bytes_down,
            "energy_joules": self.tally.energy_joules,
            "time": round(time.time(), 3),
        }
        self._meta = CheckpointMeta(
            run=self.store.run,
            round=close.number,
            accepted={**self._meta.accepted, **dict.fromkeys(close.used, close.number)},
            record=record,
            previous=line,
        )
        self._flusher.wait()  # for lines that no checkpoint will have any more
        self.store.save_checkpoint(self._state, self._meta)

    def _append(self, whole: Line) -> None:
        """Write what is not yet there: the line of metrics, and the counts behind it."""
        number = whole["round"]
        line = {key: value for key, value in whole.items() if key != BY_CLIENT}
        if number not in self._written:
            self._metrics.append(line)
            self._flusher.add(self._metrics.path)
            self._written.add(number)
        if whole.get(BY_CLIENT) and number not in self._told:
            self._clients.append({"round": number, "clients": whole[BY_CLIENT]})
            self._flusher.add(self._clients.path)
            self._told.add(number)

    def finish(self) -> str:
        """Write the final model; returns its digest."""
        model = self._algorithm.global_model(self._state)
        meta = ModelMeta(run=self.store.run, round=self._meta.round)
        write_atomic(self.store.folder / "model.safetensors", encode_tensors(model, meta))
        summary = summarize(
            read_records(self._metrics.path), self.experiment.evaluation.personal_stage
        )
        write_atomic(self.store.folder / SUMMARY, msgspec.json.encode(summary) + b"\n")
        self.store.mark_finished()
        return digest(model)

    def lines(self) -> list[Line]:
        """What is known of every finished round, the last one untested as yet."""
        return [*read_records(self._metrics.path), self.last_record()]

    def last_record(self) -> Line:
        """The training record of the last finished round."""
        return dict(self._meta.record)

    def close(self) -> None:
        """Close the files."""
        self._flusher.wait()
        self._metrics.close()
        self._clients.close()
        self.events.close()


def _outline(array: Array) -> Array:
    """Shape and kind of an array, without its memory."""
    return np.broadcast_to(np.zeros((), array.dtype), array.shape)


class _Updates(Sequence[Update]):
    """The updates of a round in ascending order of client id, loaded one at a time."""

    def __init__(self, aggregator: Aggregator, number: int, clients: Sequence[int]) -> None:
        self._aggregator = aggregator
        self._number = number
        self._clients = sorted(clients)
        self._metas: dict[int, UpdateMeta] = {}

    @property
    def metas(self) -> list[UpdateMeta]:
        """Metadata of all updates."""
        for at, client in enumerate(self._clients):
            if client not in self._metas:  # an algorithm need not look at all of them
                self[at]
        return [self._metas[client] for client in self._clients]

    def __len__(self) -> int:
        return len(self._clients)

    @overload
    def __getitem__(self, index: int) -> Update: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Update]: ...
    def __getitem__(self, index: int | slice) -> Update | Sequence[Update]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        client = self._clients[index]
        arrays, meta = self._aggregator.update(self._number, client)
        self._metas[client] = meta
        return Update(client, arrays, meta.weights)

    def __iter__(self) -> Iterator[Update]:
        return (self[index] for index in range(len(self)))
