"""The same rounds, algorithms and files in one process without a broker: same bits."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from common import VERSION
from common.disk.atomic import write_atomic
from common.errors import ProtocolError
from common.experiment.resolve import algorithm_of
from common.wire.messages import (
    PROTOCOL,
    Connected,
    CurrentRound,
    Info,
    Selected,
    TrainEnd,
)
from common.worker.orders import EpochDone, JobDone, JobOrder, Prepare
from common.worker.snapshot_choice import base_snapshot, snapshots_to_keep
from common.worker.snapshot_store import SnapshotStore
from fl_server.coordinator.conductor import Conductor, Observer, policy_of, resume_state
from fl_server.coordinator.local_clients import Fleet, make_fleet
from fl_server.rounds.state import Event, Heard, Rejected, Stored, Working
from fl_server.run.aggregator import Aggregator
from fl_server.run.store import RunStore

BOARD = "simulation"


class Simulation:
    """A run whose clients are all computed here, in turn or in `processes` processes."""

    def __init__(
        self, store: RunStore, *, processes: int, shards: Path, observe: Observer
    ) -> None:
        self._store = store
        self._experiment = store.experiment()
        self._processes = processes
        self._shards = shards
        self._aggregator = Aggregator(store, self._experiment)
        self._steps = SnapshotStore(store.folder / "clients", store.run)
        self._algorithm = algorithm_of(self._experiment)
        self._events: list[Event] = []
        policy = policy_of(store.run, self._experiment)
        state = resume_state(self._aggregator, store.next_incarnation())
        self._conductor = Conductor(self._aggregator, policy, state, self, observe)

    # the boards of the conductor: nobody listens

    def announce(self) -> None:
        """Nobody needs to be told."""

    def send_weights(self, number: int) -> None:
        """Put the model where the clients read it."""
        blob = self._aggregator.download(number)
        self._aggregator.tally.bytes_down += len(blob)
        write_atomic(self._download(number), blob)
        phase = self._conductor.state.phase
        for client in phase.selected if isinstance(phase, Working) else ():
            own = self._aggregator.private_download(number, client)
            if own is not None:
                self._aggregator.tally.bytes_down += len(own)
                write_atomic(self._private(client), own)

    def publish(self, message: CurrentRound | Selected | TrainEnd) -> None:
        """Nobody needs to be told."""

    def aggregate(self, work: Callable[[], Event]) -> None:
        """Do it now."""
        self._events.append(work())

    def _download(self, number: int) -> Path:
        return self._steps.folder / f"download-{number % 2}.safetensors"

    def _private(self, client: int) -> Path:
        return self._steps.folder / f"download-to-{client}.safetensors"

    # the rounds

    def run(self) -> None:
        """Run to the end."""
        self._conductor.tell_start()
        fleet = make_fleet(self._processes)
        try:
            fleet.prepare(
                Prepare(
                    run=self._store.run,
                    experiment=self._experiment,
                    shards=str(self._shards),
                    snapshots=str(self._steps.folder),
                    clients=self._conductor.policy.participants,
                )
            )
            self._feed(Heard(self._presence(), time.monotonic()))
            while isinstance(self._conductor.state.phase, Working):
                self._do_round(fleet, self._conductor.state.phase)
        finally:
            fleet.release()
            self._aggregator.close()

    def _feed(self, event: Event) -> None:
        self._conductor.feed(event)
        while self._events:
            self._conductor.feed(self._events.pop(0))

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

    def _do_round(self, fleet: Fleet, phase: Working) -> None:
        number = phase.number
        self.send_weights(number)
        orders: list[JobOrder] = []
        for client in sorted(phase.untrained):
            if number in self._steps.rounds(client):  # a simulation that was stopped here
                self._take_update(client, number)
            else:
                orders.append(self._order("train", client, number, len(orders)))
        for client in sorted(phase.untested):
            orders.append(self._order("test", client, number, len(orders)))
        for order, report in fleet.do(orders):
            self._take(order, report)

    def _order(self, kind: str, client: int, number: int, job: int) -> JobOrder:
        base = base_snapshot(
            self._steps.rounds(client),
            number,
            coupled=self._algorithm.coupled,
            accepted=self._conductor.state.accepted.get(client),
        )
        return JobOrder(
            job=job,
            kind=kind,
            client=client,
            round=number,
            base=base,
            download=str(self._download(number)),
            private=str(self._private(client)) if self._own_downloads(kind) else "",
        )

    def _own_downloads(self, kind: str) -> bool:
        return kind == "train" and self._algorithm.private is not None

    def _take(self, order: JobOrder, report: JobDone | EpochDone) -> None:
        if isinstance(report, EpochDone):
            place = {"board": BOARD, "client": order.client, "round": order.round}
            epoch = {"state": "training", "epoch": report.epoch, "epochs": report.epochs}
            self._conductor.tell("info", keep=False, **place, **epoch)
        elif report.metrics is not None:
            self._feed(Heard(report.metrics, time.monotonic()))
        else:
            self._conductor.note_trained(
                Info(
                    run=self._store.run,
                    round=order.round,
                    client=order.client,
                    board=BOARD,
                    state="trained",
                    seconds=report.seconds,
                    samples=report.samples,
                )
            )
            self._take_update(order.client, order.round)

    def _take_update(self, client: int, number: int) -> None:
        now = time.monotonic()
        blob = self._steps.update(client, number)
        self._aggregator.tally.bytes_up += len(blob)
        try:
            self._aggregator.accept(number, client, blob)
        except ProtocolError as error:
            self._feed(Rejected(client, number, str(error), now))
            return
        accepted = self._conductor.state.accepted.get(client)
        keep = snapshots_to_keep(self._steps.rounds(client), number, accepted)
        self._steps.prune(client, keep)
        self._conductor.tell("update", client=client, round=number, bytes=len(blob))
        self._feed(Stored(client, number, now))
