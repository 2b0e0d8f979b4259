"""The daemon's shell: what happens on the link and in the training processes becomes events
for the agent, and its actions become effects. Decisions are in `agent.py`."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from common import VERSION
from common.access.address import Address, probe
from common.config import Experiment
from common.errors import (
    BrokerError,
    FedbedError,
    ProtocolError,
    StoreError,
    VersionError,
)
from common.experiment.resolve import algorithm_of, keeps_state, participants_of
from common.ids import show_ids
from common.program.systemd import Notifier
from common.wire.chunks import cut
from common.wire.drop_counter import DropCounter
from common.wire.link import (
    Arrived,
    Down,
    Happening,
    Link,
    Posted,
    Refused,
    Session,
    Streamed,
    Up,
)
from common.wire.messages import (
    Chunk,
    Connected,
    CurrentRound,
    Info,
    Selected,
    TrainDetail,
    TrainEnd,
)
from common.wire.presence import Presence, first_claim
from common.wire.topics import Packet, board_subscriptions, packet, unpack
from common.worker.orders import EpochDone, JobDone, JobError, JobOrder, Prepare, Prepared
from common.worker.pool import Pool
from common.worker.snapshot_store import SnapshotStore
from fl_client.agent import machine as agent
from fl_client.agent.state import (
    Action,
    Advanced,
    Cancel,
    CloseRun,
    Event,
    GotPart,
    Heard,
    Job,
    JobFailed,
    Opened,
    OpenFailed,
    OpenRun,
    Policy,
    Prune,
    Publish,
    Reconnected,
    SendUpdate,
    SnapshotLost,
    Start,
    State,
    Tested,
    Tick,
    Trained,
    UpdateStreamed,
)
from fl_client.downloads import Downloads
from fl_client.hardware.gauges import Gauges
from fl_client.identity import Identity
from fl_client.old_runs import forget_old_runs

TICK_SECONDS = 0.25

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the person who started the daemon said."""

    address: Address
    board: str
    clients: tuple[int, ...]
    state: Path
    federation: str = "fl"
    workers: int = 1


class _Stop:
    """Posted by whoever wants the daemon to end."""


class Daemon:
    """One board: its identity, its link, its training processes and its agent."""

    def __init__(
        self,
        settings: Settings,
        identity: Identity,
        link: Link,
        pool: Pool,
        notifier: Notifier,
    ) -> None:
        self._settings = settings
        self._notifier = notifier
        self._policy = Policy(settings.board, settings.clients, settings.workers)
        self._state = State()
        self._dropped = DropCounter()
        self._downloads = Downloads(settings.state / "downloads")
        self._store: SnapshotStore | None = None
        self._preparing: tuple[SnapshotStore, Experiment] | None = None
        self._jobs: dict[int, Job] = {}
        self._next_job = 0
        self._lost: list[tuple[int, int]] = []
        self._held: list[Arrived] = []
        claim = first_claim(
            settings.board,
            instance=identity.instance,
            starts=identity.starts,
            clients=settings.clients,
        )
        self._presence = Presence(settings.federation, claim)
        self._session = Session(
            f"{settings.federation}-{settings.board}-{identity.instance}",
            board_subscriptions(settings.federation, settings.clients),
            self._presence.will,
        )
        self._link = link
        self._presence.use(link.publish)
        self._pool = pool
        self._gauges = Gauges(settings.state)

    def stop(self) -> None:
        """Ask the daemon to end; may be called from a signal handler."""
        self._link.post(_Stop())

    def run(self) -> None:
        """Serve experiments until `stop`; raises when this board cannot be what it claims."""
        self._link.open(self._session)
        try:
            self._serve()
        finally:
            self._notifier.stopping()
            self._pool.release()
            self._gauges.close()
            self._presence.say_farewell()
            self._link.close()

    def _serve(self) -> None:
        ticked = time.monotonic()
        self._notifier.ready("waiting for the broker")
        while True:
            happening = self._link.receive(TICK_SECONDS)
            self._notifier.beat(time.monotonic())
            if isinstance(happening, Posted) and isinstance(happening.item, _Stop):
                log.info("stopping")
                return
            if happening is not None:
                self._take(happening)
            while self._lost:
                client, number = self._lost.pop()
                self._step(SnapshotLost(client, number, time.monotonic()))
            if time.monotonic() - ticked >= TICK_SECONDS:
                ticked = time.monotonic()
                self._presence.measure(self._gauges.telemetry)
                self._gauges.tick(self._jobs)
                if self._presence.tick():
                    self._begin()
                self._step(Tick(ticked))

    # what happens

    def _take(self, happening: Happening) -> None:
        now = time.monotonic()
        match happening:
            case Up(connection):
                log.info("connected to the broker at %s", self._settings.address)
                self._notifier.status("connected")
                self._presence.connected(connection)
                self._step(Reconnected(now))
            case Down(reason):
                self._notifier.status("waiting for the broker")
                log.warning(
                    "no broker at %s (%s); trying again", self._settings.address, reason
                )
            case Refused(reason):
                raise BrokerError(
                    f"the broker at {self._settings.address} refuses board "
                    f"{self._settings.board!r}: {reason}"
                )
            case Arrived():
                self._hear(happening, now)
                self._link.confirm(happening)
            case Streamed(token):
                client, number = map(int, token.split())
                self._step(UpdateStreamed(client, number, now))
            case Posted(item):
                self._take_report(item, now)

    def _hear(self, arrived: Arrived, now: float) -> None:
        if not arrived.payload:
            self._presence.hear_cleared(arrived.topic)
            return
        try:
            _, message = unpack(self._settings.federation, arrived.topic, arrived.payload)
        except VersionError as error:
            self._refuse(arrived, error)
            return
        except ProtocolError as error:
            kind = f"{arrived.topic.split('/')[-2:]}"
            self._dropped.note(kind, arrived.topic, len(arrived.payload), str(error))
            return
        if isinstance(message, Connected):
            if self._presence.hear(message, stored=arrived.retained):
                self._begin()
        elif not self._presence.settled:
            self._held.append(arrived)
        elif isinstance(message, Chunk):
            done = self._downloads.add(message)
            header = message.header
            self._step(GotPart(header.run, header.round, done, now, header.client))
        elif isinstance(message, TrainDetail | CurrentRound | Selected | TrainEnd):
            self._step(Heard(message, now))

    def _refuse(self, arrived: Arrived, error: VersionError) -> None:
        first = self._dropped.note("version", arrived.topic, len(arrived.payload), str(error))
        if first and arrived.topic.endswith("/train_detail"):
            self._complain(f"the coordinator {error}")

    def _complain(self, problem: str) -> None:
        """Let everybody know why this board cannot take part (or that it can again)."""
        if self._presence.complain(problem) and problem:
            log.error("%s", problem)

    def _begin(self) -> None:
        """Nobody objects to our being here: take what has waited for that."""
        clients = show_ids(self._settings.clients)
        log.info("board %s is ready: clients %s", self._settings.board, clients)
        held, self._held = self._held, []
        for arrived in held:
            self._hear(arrived, time.monotonic())

    def _take_report(self, item: object, now: float) -> None:
        match item:
            case Prepared(run=run, problem=problem):
                self._take_prepared(run, problem, now)
            case EpochDone(job=number) if number in self._jobs:
                job = self._jobs[number]
                info = self._info(job, state="training", epoch=item.epoch, epochs=item.epochs)
                self._step(Advanced(job, msgspec.structs.replace(info, loss=item.loss), now))
            case JobError(job=number, problem=problem) if number in self._jobs:
                job = self._jobs.pop(number)
                if problem:
                    log.error("client %d, round %d: %s", job.client, job.round, problem)
                self._step(JobFailed(job, problem, now))
            case JobDone(job=number) if number in self._jobs:
                joules = self._gauges.ended(number, self._jobs)
                self._take_done(self._jobs.pop(number), item, joules, now)

    def _take_prepared(self, run: str, problem: str, now: float) -> None:
        if self._preparing is None or self._preparing[0].run != run:
            return
        store, experiment = self._preparing
        self._preparing = None
        if problem:
            self._complain(problem)
            self._step(OpenFailed(run, now))
            return
        self._complain("")
        self._store = store
        algorithm = algorithm_of(experiment)
        stateful, private = keeps_state(experiment), algorithm.private is not None
        self._step(Opened(run, store.scan(), algorithm.coupled, now, stateful, private))

    def _take_done(self, job: Job, done: JobDone, joules: float | None, now: float) -> None:
        if done.metrics is not None:
            self._step(Tested(job, done.metrics, now))
            return
        info = msgspec.structs.replace(
            self._info(job, state="trained"),
            loss=done.loss,
            seconds=done.seconds,
            bytes=done.bytes,
            samples=done.samples,
            joules=joules,
        )
        log.info("client %d, round %d: trained in %.1f s", job.client, job.round, done.seconds)
        self._step(Trained(job, info, now))

    def _info(self, job: Job, *, state: str, epoch: int = 0, epochs: int = 0) -> Info:
        assert self._store is not None
        fields = {"state": state, "epoch": epoch, "epochs": epochs}
        place = {"round": job.round, "client": job.client, "board": self._settings.board}
        return msgspec.convert({"run": self._store.run, **place, **fields}, Info)

    # what is done about it

    def _step(self, event: Event) -> None:
        self._state, actions = agent.step(self._policy, self._state, event)
        for action in actions:
            self._perform(action)

    def _perform(self, action: Action) -> None:
        log.debug("%s", action)
        match action:
            case OpenRun(detail):
                self._open_run(detail)
            case CloseRun(run):
                log.info("run %s is over on this board", run)
                self._notifier.status("waiting for an experiment")
                self._pool.release()
                self._jobs.clear()
                self._store = None
            case Start(job):
                self._start(job)
            case Cancel(job):
                for number, running in self._jobs.items():
                    if running == job:
                        self._pool.abandon(number)
            case SendUpdate(client, number, again):
                packets = self._packets(client, number, verify=again)
                self._link.stream(f"{client} {number}", packets)
            case Publish(message):
                stamped = self._gauges.stamp(message)
                self._link.publish(packet(self._settings.federation, stamped))
            case Prune(client, keep):
                assert self._store is not None
                self._store.prune(client, keep)

    def _open_run(self, detail: TrainDetail) -> None:
        log.info("run %s: preparing", detail.run)
        self._notifier.status(f"run {detail.run}")
        if detail.version != VERSION:
            log.warning("the coordinator has fedbed %s, this board %s", detail.version, VERSION)
        try:
            experiment = msgspec.json.decode(detail.experiment, type=Experiment)
            mine = sorted(set(self._settings.clients) & set(participants_of(experiment)))
            algorithm_of(experiment)
        except (msgspec.DecodeError, FedbedError) as error:
            problem = f"cannot take part in {detail.run} (fedbed {detail.version}): {error}"
            self._complain(problem)
            self._step(OpenFailed(detail.run, time.monotonic()))
            return
        folder = self._settings.state / "runs" / detail.run
        forget_old_runs(folder)
        self._preparing = (SnapshotStore(folder, detail.run), experiment)
        self._pool.release()
        self._pool.prepare(
            Prepare(
                run=detail.run,
                experiment=experiment,
                shards=str(self._settings.state / "shards"),
                snapshots=str(folder),
                clients=tuple(mine),
            )
        )

    def _start(self, job: Job) -> None:
        assert self._store is not None
        self._gauges.tick(self._jobs)
        self._next_job += 1
        self._jobs[self._next_job] = job
        run, private = self._store.run, ""
        if job.kind == "train" and self._state.work is not None and self._state.work.private:
            private = str(self._downloads.private_path(run, job.round, job.client))
        self._pool.start(
            JobOrder(
                job=self._next_job,
                kind=job.kind,
                client=job.client,
                round=job.round,
                base=job.base,
                download=str(self._downloads.path(run, job.round)),
                private=private,
            )
        )

    def _packets(self, client: int, number: int, *, verify: bool) -> Iterator[Packet]:
        """The update of a step; read from disk only when its turn to be sent comes."""
        store = self._store
        if store is None:
            return
        try:
            blob, digest = store.outgoing(client, number, verify=verify)
        except StoreError as error:
            log.warning("discarded a step: %s", error)
            store.prune(client, store.rounds(client) - {number})
            self._lost.append((client, number))
            return
        for chunk in cut(
            blob, run=store.run, round_number=number, client=client, digest=digest
        ):
            yield packet(self._settings.federation, chunk)


def check_broker(address: Address) -> None:
    """Warn at once if nobody answers; the daemon waits for the broker anyway."""
    try:
        probe(address)
    except BrokerError as error:
        log.warning("%s; waiting for it", error)
