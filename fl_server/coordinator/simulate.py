"""The same rounds, algorithms and files in one process without a broker: same bits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from common import VERSION
from common.config import Experiment
from common.disk.atomic import write_atomic
from common.errors import ProtocolError, UsageError
from common.experiment.resolve import algorithm_of
from common.program.arithmetic import arithmetic
from common.wire.messages import PROTOCOL, Connected, Info
from common.worker.orders import EpochDone, JobDone, JobOrder, Prepare, Prepared
from common.worker.snapshot_choice import base_snapshot, snapshots_to_keep
from common.worker.snapshot_store import SnapshotStore
from fl_server.coordinator.conductor import (
    Conductor,
    ForOwner,
    StartRecord,
    policy_of,
    resume_state,
)
from fl_server.coordinator.local_clients import LocalClients
from fl_server.rounds.control import control_state
from fl_server.rounds.requests import Requested
from fl_server.rounds.state import (
    Close,
    Event,
    Finished,
    Received,
    Rejected,
    State,
    Stored,
    Working,
)
from fl_server.run.aggregator import Aggregator
from fl_server.run.control import RequestReader
from fl_server.run.store import RunStore
from fl_server.watch import facts
from fl_server.watch.facts.making import presence

BOARD = "simulation"
LOOK_SECONDS = 0.2  # between two looks whether a paused run shall go on


def require_no_order(experiment: Experiment) -> None:
    """Refuse rounds that depend on which board is faster, where nothing takes any time."""
    if seconds := experiment.training.seconds:
        raise UsageError(
            f"training.seconds is {seconds:g}, and how many steps that is depends on how fast "
            "boards are: simulate it with --fleet fleet.toml"
        )
    if buffer := experiment.aggregation.buffer:
        raise UsageError(
            f"aggregation.buffer is {buffer}, and whose update comes first depends on how fast "
            "boards are: simulate it with --fleet fleet.toml"
        )


class Simulation:
    """A run whose clients are all computed here, in this process or in several."""

    timed = False

    def __init__(  # noqa: PLR0913 - each is a thing of its own
        self,
        store: RunStore,
        *,
        clients: LocalClients,
        shards: Path,
        observe: facts.Observer,
        record: StartRecord | None = None,
        data: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._data = "" if data is None else str(data.absolute())
        self._store = store
        self._experiment = store.experiment()
        if not self.timed:
            require_no_order(self._experiment)
        self._clients = clients
        self._arithmetic = arithmetic()
        self._shards = shards
        self._aggregator = Aggregator(store, self._experiment)
        self._requests = RequestReader(store.folder)
        self._snapshots = SnapshotStore(store.folder / "clients", store.run)
        self._algorithm = algorithm_of(self._experiment)
        self._policy = policy_of(store.run, self._experiment)
        self._conductor = Conductor(
            self._aggregator,
            self._policy,
            self._first_state(store.next_incarnation()),
            observe,
            clock=clock,
            wall=wall,
            record=record,
        )

    def _first_state(self, incarnation: int) -> State:
        """Where the run stands on disk."""
        return resume_state(self._aggregator, self._policy, incarnation, self._clock())

    def _download(self, round_number: int) -> Path:
        return self._snapshots.folder / f"download-{round_number:06d}.safetensors"

    def _private(self, client: int) -> Path:
        return self._snapshots.folder / f"download-to-{client}.safetensors"

    def run(self, *, pause: Callable[[], bool] = lambda: False) -> bool:
        """Run to the end, or until `pause` is true between two rounds: then False."""
        self._conductor.report_start()
        self._note_request()
        try:
            self._connect(self._prepare())
            while self._wait_while_paused(pause) and not pause():
                assert isinstance(self._conductor.state.phase, Working)
                self._do_round(self._conductor.state.phase)
        finally:
            self._clients.release()
            self._aggregator.close()
        return isinstance(self._conductor.state.phase, Finished)

    def _prepare(self) -> Prepared:
        return self._clients.prepare(
            Prepare(
                run=self._store.run,
                experiment=self._experiment,
                shards=str(self._shards),
                snapshots=str(self._snapshots.folder),
                clients=self._conductor.policy.participants,
                data=self._data,
                class_counts=True,
                code=str(self._store.code or ""),
                digests=self._aggregator.code,
            )
        )

    def _wait_while_paused(self, pause: Callable[[], bool]) -> bool:
        """Until a round is open; False if there is none any more."""
        while control_state(self._conductor.state) == "paused" and not pause():
            threading.Event().wait(LOOK_SECONDS)
            self._note_request()
        self._requests.is_fulfilled(self._conductor.state)
        return isinstance(self._conductor.state.phase, Working)

    def _note_request(self) -> None:
        if (request := self._requests.changed()) is not None:
            self._feed(Requested(request, self._clock()))

    def _connect(self, prepared: Prepared) -> None:
        """The boards are there: here it is one, with all clients."""
        self._register(self._presence(), prepared)

    def _register(self, here: Connected, prepared: Prepared) -> None:
        """A board announces itself, and reports the data that only it has."""
        self._conductor.report(presence(here, connected=True))
        self._feed(Received(here, self._clock()))
        for client, data in sorted(prepared.data.items()):
            if client in here.clients:
                info = Info(
                    run=self._store.run, round=0, client=client, board=here.board, state="data"
                )
                info = msgspec.structs.replace(info, samples=data.train, data=data)
                self._feed(Received(info, self._clock()))

    def _feed(self, event: Event) -> None:
        """There is nobody to publish to; what is left is closing rounds."""
        actions: list[ForOwner] = list(self._conductor.feed(event))
        while actions:
            action = actions.pop(0)
            if isinstance(action, Close):
                seconds = self._conductor.round_seconds
                closed = self._aggregator.close_round(action, seconds)
                self._note_request()  # before the next round opens
                actions += self._conductor.finish_round(closed)

    def _write_downloads(
        self, round_number: int, selected: Sequence[int], boards: int = 1
    ) -> None:
        """Put the model, and what single clients get besides, where they read it."""
        blob, tally = self._aggregator.downloads.blob(round_number), self._aggregator.tally
        tally.bytes_down += len(blob) * boards
        write_atomic(self._download(round_number), blob)
        policy = self._conductor.policy
        needed = 1 + (policy.max_staleness if policy.buffer else 0)
        for path in self._snapshots.folder.glob("download-[0-9]*.safetensors"):
            if path.stem < self._download(round_number - needed).stem:
                path.unlink()
        for client in selected:
            own = self._aggregator.downloads.private(round_number, client)
            if own is not None:
                tally.bytes_down += len(own)
                write_atomic(self._private(client), own)

    def _presence(self) -> Connected:
        return Connected(
            protocol=PROTOCOL,
            version=VERSION,
            board=BOARD,
            instance=BOARD,
            session=(1, 1),
            connected=True,
            settled=True,
            since=time.time(),
            clients=self._conductor.policy.participants,
            host=BOARD,
        )

    def _do_round(self, phase: Working) -> None:
        round_number = phase.round_number
        self._write_downloads(round_number, phase.selected)
        orders: list[JobOrder] = []
        for client in sorted(phase.untrained):
            if round_number in self._snapshots.rounds(client):  # it was stopped here
                self._take_update(client, round_number)
            else:
                orders.append(self._order("train", client, round_number, len(orders)))
        for client in sorted(phase.untested):
            orders.append(self._order("test", client, round_number, len(orders)))
        for order, report in self._clients.do(orders):
            self._take(order, report)

    def _order(self, kind: str, client: int, round_number: int, job: int) -> JobOrder:
        base = base_snapshot(
            self._snapshots.rounds(client),
            round_number,
            coupled=self._algorithm.coupled,
            accepted=self._conductor.state.accepted.get(client),
        )
        return JobOrder(
            job=job,
            kind=kind,
            client=client,
            round=round_number,
            base=base,
            download=str(self._download(round_number)),
            private=str(self._private(client)) if self._own_downloads(kind) else "",
        )

    def _own_downloads(self, kind: str) -> bool:
        return kind == "train" and self._algorithm.private is not None

    def _take(self, order: JobOrder, report: JobDone | EpochDone) -> None:
        self._note_request()
        if isinstance(report, EpochDone):
            info = self._info(order, "training")
            info = msgspec.structs.replace(info, epoch=report.epoch, epochs=report.epochs)
            self._conductor.report(facts.Info(info=info))
        elif report.metrics is not None:
            self._feed(Received(report.metrics, self._clock()))
        else:
            self._note_trained(order, report)
            self._take_update(order.client, order.round)

    def _note_trained(self, order: JobOrder, report: JobDone) -> None:
        """Each training counts once."""
        info = self._info(order, "trained")
        info = msgspec.structs.replace(info, seconds=report.seconds, samples=report.samples)
        info = msgspec.structs.replace(info, arithmetic=self._arithmetic)
        self._conductor.note_trained(info)

    def _info(self, order: JobOrder, state: Literal["training", "trained"]) -> Info:
        return Info(
            run=self._store.run,
            round=order.round,
            client=order.client,
            board=BOARD,
            state=state,
        )

    def _take_update(self, client: int, round_number: int) -> None:
        now = self._clock()
        blob = self._snapshots.update(client, round_number)
        self._aggregator.tally.bytes_up += len(blob)
        try:
            self._aggregator.accept(round_number, client, blob)
        except ProtocolError as error:
            self._feed(Rejected(client, round_number, str(error), now))
            return
        accepted = self._conductor.state.accepted.get(client)
        keep = snapshots_to_keep(self._snapshots.rounds(client), round_number, accepted)
        self._snapshots.prune(client, keep)
        fact = facts.Update(client=client, round=round_number, bytes=len(blob))
        self._conductor.report(fact)
        self._feed(Stored(client, round_number, now))
