"""The algorithm's server half: downloads, updates, aggregation, and the state on disk.

Both the coordinator and the simulation use this; how updates get here and when a round closes
is decided elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from common.arrays import Arrays, digest
from common.code_files import digests_of
from common.config import Experiment
from common.data.dataset import info_of
from common.data.reported import LocalData
from common.disk.atomic import write_atomic
from common.experiment.resolve import algorithm_of, own_code, server_of
from common.experiment.tasks import task_of
from common.plugins import use_code
from common.side_thread import beside
from common.wire.assembly import Assembly
from common.wire.chunks import blob_digest
from common.wire.messages import Info
from fl_server.rounds.rules import RANDOM
from fl_server.rounds.state import Close, Known, Open
from fl_server.rounds.steps import Sealing
from fl_server.run.accountant import epsilon
from fl_server.run.checks import Checks
from fl_server.run.computed import Computed
from fl_server.run.metrics.records import Records, TestedRound
from fl_server.run.metrics.tally import Tally
from fl_server.run.metrics.training_line import training_line
from fl_server.run.model.downloads import Downloads
from fl_server.run.model.file import NAME, write_model
from fl_server.run.model.first import starting_model
from fl_server.run.noise import noise_of
from fl_server.run.server_half import RoundUpdates, ServerHalf
from fl_server.run.store import KEEP_CHECKPOINTS, CheckpointMeta, RunStore, nothing
from fl_server.run.updates.files import Kind
from fl_server.run.updates.incoming import make_incoming
from fl_server.run.updates.secure_journal import Opening, SecureJournal
from fl_server.run.updates.site_sums import check_job
from fl_server.watch import facts
from fl_server.watch.facts.lines import TrainingLine, fields_of, with_tests
from fl_server.watch.facts.making import evaluated, round_closed


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands on disk."""

    done: int
    accepted: dict[int, int]
    opened: Open | None
    safe: tuple[int, ...]  # in the order of acceptance
    reported: frozenset[int] = frozenset()  # clients with data that only their boards have
    sealing: Sealing | None = None


@dataclass(frozen=True, slots=True)
class ClosedRound:
    """A round that is aggregated and on disk; what is to be reported of it."""

    round_number: int
    tested: facts.Evaluated | None
    trained: facts.RoundClosed | None


class Aggregator:
    """One run's server state, the updates of its open round, and its records.

    `masked`: of a secured run, whose boards mask their updates.
    """

    def __init__(
        self, store: RunStore, experiment: Experiment, *, masked: bool = False
    ) -> None:
        self.store = store
        self.experiment = experiment
        self.tally = Tally()
        self.notes: tuple[str, ...] = ()  # about the first model
        self._opened = 0
        self._deleting = beside(nothing)
        if store.code is not None:
            use_code(store.code)
        self._half = ServerHalf(algorithm_of(experiment))
        self.code = digests_of(own_code(experiment))
        self.changed_code = store.note_code(self.code)
        self.task = task_of(experiment)
        self.records = Records(store.folder)
        self.local = LocalData(store.folder, experiment.data)
        self._computed = Computed(store.computed)
        self._state, self._meta = self._load()
        self.downloads = Downloads(store, experiment, self._half, self.local)
        self.downloads.renew(self._state, self._meta.round + 1)
        first = self.downloads.broadcast
        expected = self._half.expects(server_of(experiment), first)
        self._noise = noise_of(experiment, expected, first, by_clients=masked)
        self.checks = Checks(
            expected,
            info_of(experiment.data).size,
            self._noise.most_weight or self._half.most_weight,
            self.task,
            move=self._check_move if self._noise.clip else None,
        )
        folder = store.updates.secure_folder
        self.secure = SecureJournal(store.run, folder) if masked else None
        self._incoming = make_incoming(
            experiment,
            self.checks,
            self._load_update,
            self.downloads.fresh,
            needs_each=self._half.needs_each,
            opening=None if self.secure is None else self._opening,
        )

    def _check_move(self, arrays: Arrays) -> None:
        self._noise.check(arrays, self.downloads.sent(self._meta.round + 1))

    def _opening(self) -> Opening:
        assert self.secure is not None, "only secured rounds are opened"
        return self.secure.opening(self._meta.round + 1)

    def _load(self) -> tuple[Arrays, CheckpointMeta]:
        found = self.store.load_checkpoint()
        if found is None:
            start = starting_model(self.experiment, self.store.folder)
            self.notes = start.notes
            state = self._half.server_init(server_of(self.experiment), start.model)
            meta = CheckpointMeta(
                run=self.store.run, round=0, accepted={}, record=TrainingLine(round=0)
            )
            self.store.save_checkpoint(state, meta)
            return state, meta
        if found[1].previous is not None:
            self.records.append(found[1].previous)
        return found

    def progress(self) -> Progress:
        """Where the run stands on disk; reads and verifies every update of the open round."""
        round_number = self._meta.round + 1
        opened = self.store.opened(round_number)
        safe: tuple[int, ...] = ()
        self.store.updates.remove_before(round_number)
        if opened is not None:
            groups = self.store.updates.safe_sums(round_number)
            self._incoming.restore(groups)
            safe = self.store.updates.safe(round_number)
            safe += tuple(client for clients in groups.values() for client in clients)
        reported = frozenset(self.local.clients)
        sealing = self.secure.sealing(round_number) if self.secure is not None else None
        accepted = dict(self._meta.accepted)
        return Progress(self._meta.round, accepted, opened, safe, reported, sealing)

    def open_round(self, opened: Open) -> None:
        """Begin to add up a round; one that is opened again, for more clients, goes on."""
        self.local.fix()
        self.store.open_round(opened, durable=self.secure is not None)
        self._incoming.open(opened.selected)
        if self._opened != opened.round_number:
            self._opened = opened.round_number
            self.tally = Tally()

    @property
    def largest_update(self) -> int:
        """How many bytes an update may have."""
        return 4 * sum(array.nbytes for array in self.checks.expected.values()) + 1024 * 1024

    def accept(
        self, round_number: int, client: int, blob: bytes, assembly: Assembly | None = None
    ) -> None:
        """Check an update and keep it; ProtocolError if it cannot be used.

        If it was put together by an assembly, its digest is known, and perhaps it has a file.
        It may be the sum of several clients' updates.
        """
        check_job(blob, (self.store.run, round_number, client))
        kind = self._incoming.take(client, blob)
        digest = blob_digest(blob) if assembly is None else assembly.header.digest
        path = self.store.updates.path(self._meta.round + 1, client, digest, kind)
        if assembly is not None:
            assembly.keep(path)
        else:
            write_atomic(path, blob, durable=False)

    def _load_update(self, client: int, kind: Kind = "client") -> bytes:
        """A safe update of the open round."""
        return self.store.updates.load(self._meta.round + 1, client, kind)

    def note_energy(self, info: Info) -> None:
        """Take the energy of a client's training in the open round."""
        buffered = self.experiment.aggregation.buffer
        if info.joules is not None and (buffered or info.round == self._meta.round + 1):
            self.tally.spend(info.client, info.joules)

    def note_arithmetic(self, info: Info) -> str:
        """Take note of what has trained a client; a warning if that was another before."""
        if not self._computed.note(info.client, info.arithmetic):
            return ""
        new = info.arithmetic not in self.store.computed
        warning = self._computed.warning(info.client)
        if new or warning:  # the others are written with their round
            self.store.note_computed(self._computed.table())
        return warning

    def close_round(self, close: Close, seconds: float) -> ClosedRound:
        """Aggregate, checkpoint, write the metrics of the model that was just tested."""
        tests = self.tally.tests(self.task, self.experiment.evaluation.epsilon)
        line = with_tests(self._meta.record, tests)
        tested = TestedRound(line, self.tally.by_client())
        if close.training:
            self._aggregate(close, seconds, tested)
        self.records.append(tested)
        self._incoming.clear()
        self.store.note_computed(self._computed.table())
        settings = self.experiment.aggregation
        older = settings.max_staleness if settings.buffer else 0
        number, keep = close.round_number, KEEP_CHECKPOINTS + older
        self._deleting = beside(self.store.close_round, number, keep)
        return ClosedRound(
            close.round_number,
            evaluated(fields_of(line)) if line.tested_clients else None,
            round_closed(fields_of(self._meta.record)) if close.training else None,
        )

    def _aggregate(self, close: Close, seconds: float, tested: TestedRound) -> None:
        number = close.round_number
        updates = self._incoming.updates(close.used, self.checks.expected)
        sent = self.downloads.sent(number)
        self.downloads.forget()  # memory for the sums
        began = time.monotonic()
        if close.used:
            server = server_of(self.experiment, round_number=number, download=sent)
            server = self._noise.on(server, self.store.updates.folder(number))
            self._state = self._half.server_update(server, self._state, updates)
        buffered = self.experiment.aggregation.buffer > 0
        record = training_line(
            close,
            self.tally,
            updates.reported,
            seconds=seconds,
            aggregate_seconds=time.monotonic() - began,
            epsilon=epsilon(self._noise, number),
            rounds=updates.rounds if buffered else None,
        )
        self._meta = CheckpointMeta(
            run=self.store.run,
            round=number,
            accepted={
                **self._meta.accepted,
                **dict.fromkeys(close.used, number),
                **close.started,
            },
            record=record,
            previous=tested,
            known={**self.known, **self._learned(close, updates)},
        )
        self.downloads.renew(self._state, number + 1)
        self.records.flush()  # lines that no checkpoint will have any more
        self.store.save_checkpoint(self._state, self._meta, self.downloads.prepare)

    @property
    def known(self) -> Mapping[int, Known]:
        """What rules of selection may look at."""
        return self._meta.known

    def _learned(self, close: Close, updates: RoundUpdates) -> dict[int, Known]:
        """What a round has told of its clients, if somebody looks at it."""
        if self.experiment.selection.rule == RANDOM:
            return {}
        seconds = self.tally.trained
        return {
            client: Known(samples, loss, seconds.get(client))
            for client, samples, loss in updates.told(close.used)
        }

    def finish(self) -> str:
        """Write the final model; returns its digest."""
        write_model(self.store.folder / NAME, self._half.global_model(self._state))
        self.records.write_summary(self.experiment)
        self.store.mark_finished()
        return self.digest

    @property
    def digest(self) -> str:
        """The digest of the newest model."""
        return digest(self._half.global_model(self._state))

    def lines(self) -> list[TrainingLine]:
        """What is known of every finished round; the last one is not tested yet."""
        return [*self.records.lines(), self._meta.record]

    def close(self) -> None:
        """Close the files, when what is not needed any more is deleted."""
        self._deleting.result()
        self.records.close()
