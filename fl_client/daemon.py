"""The daemon's shell: what happens on the link and in the training processes becomes events for
the agent, and its actions become effects. Decisions are in `agent/machine.py`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from common.disk.identity import Identity
from common.disk.recording import Recorder
from common.errors import BrokerError, ProtocolError, VersionError
from common.ids import show_ids
from common.program.systemd import Notifier
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
    ChunkHeader,
    Connected,
    CurrentRound,
    Info,
    Selected,
    TrainDetail,
    TrainEnd,
)
from common.wire.presence import Presence, first_claim
from common.wire.topics import board_subscriptions, packet, unpack
from common.worker.pool import Pool
from fl_client.agent import machine as agent
from fl_client.agent import state as a
from fl_client.downloads import Downloads
from fl_client.hardware.gauges import Gauges
from fl_client.jobs import Jobs
from fl_client.outgoing import Outgoing, UpdateKey
from fl_client.settings import Settings

TICK_SECONDS = 0.25
HELD_BYTES = 64 * 1024**2  # of messages that wait until our claim is settled

log = logging.getLogger(__name__)


class _Stop:
    """Posted to end the daemon."""


class Daemon:
    """One board: its identity, its link, its training processes and its agent."""

    def __init__(
        self,
        settings: Settings,
        identity: Identity,
        link: Link,
        pool: Pool,
        notifier: Notifier,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._link = link
        self._pool = pool
        self._notifier = notifier
        self._clock = clock
        self._policy = a.Policy(settings.board, settings.clients, settings.workers)
        self._state = a.State()
        self._recorder = (
            Recorder(settings.record, self._policy, self._state) if settings.record else None
        )
        self._dropped = DropCounter()
        self._downloads = Downloads(settings.state / "downloads")
        self._gauges = Gauges(settings.state)
        self._jobs = Jobs(
            self._policy,
            settings,
            pool,
            self._downloads,
            self._gauges,
            self._publish_problem,
        )
        self._outgoing = Outgoing(settings.federation)
        self._held: list[Arrived] = []  # until our claim is settled
        self._ticked = clock()
        claim = first_claim(
            settings.board,
            instance=identity.instance,
            starts=identity.starts,
            clients=settings.clients,
        )
        self._presence = Presence(settings.federation, claim, link.publish, clock)
        self._session = Session(
            f"{settings.federation}-{settings.board}-{identity.instance}",
            board_subscriptions(settings.federation, settings.clients),
            self._presence.will,
        )

    @property
    def state(self) -> a.State:
        """What the agent knows."""
        return self._state

    def stop(self) -> None:
        """Ask the daemon to end; may be called from a signal handler."""
        self._link.post(_Stop())

    def run(self) -> None:
        """Serve experiments until `stop`; raises when this board cannot be what it claims."""
        self.open()
        self._gauges.start()
        self._notifier.ready("waiting for the broker")
        try:
            while self.advance():
                pass
        finally:
            self.close()

    def open(self) -> None:
        """Connect."""
        self._link.open(self._session)

    def close(self) -> None:
        """End all jobs, publish that this board leaves, and disconnect."""
        self._notifier.stopping()
        self._pool.release()
        self._gauges.close()
        try:
            self._presence.publish_leaving()
            self._link.close()
        finally:
            if self._recorder is not None:
                self._recorder.close()

    def advance(self) -> bool:
        """Handle the next thing that happens, and what is due; False if it was a `stop`."""
        happening = self._link.receive(TICK_SECONDS)
        self._notifier.beat(self._clock())
        if isinstance(happening, Posted) and isinstance(happening.item, _Stop):
            log.info("stopping")
            return False
        if happening is not None:
            self._take(happening)
        while self._outgoing.lost:
            lost = self._outgoing.lost.pop()
            self._feed(a.SnapshotLost(lost.client, lost.round, self._clock()))
        if self._clock() - self._ticked >= TICK_SECONDS:
            self._tick()
        return True

    def _tick(self) -> None:
        self._ticked = self._clock()
        self._presence.set_telemetry(self._gauges.telemetry)
        self._jobs.tick()
        if self._presence.tick():
            self._begin()
        self._feed(a.Tick(self._ticked))

    # from the link

    def _take(self, happening: Happening) -> None:
        now = self._clock()
        match happening:
            case Up(connection):
                log.info("connected to the broker at %s", self._settings.address)
                self._notifier.status("connected")
                self._presence.connected(connection)
                self._feed(a.Reconnected(now))
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
                try:
                    self._receive(happening)
                finally:  # whatever it was, it is not delivered again: coordinators repeat
                    self._link.confirm(happening)
            case Streamed(token):
                assert isinstance(token, UpdateKey), "only updates are streamed"
                self._feed(a.UpdateStreamed(token.client, token.round, now))
            case Posted(report):
                event = self._jobs.event_of(report, now)
                if event is not None:
                    self._feed(event)
                if isinstance(event, a.Opened):  # what came before it is of this run
                    for part in [*self._downloads.private.values()]:
                        self._note_part(part, complete=True)

    def _receive(self, arrived: Arrived) -> None:
        with self._dropped.guard(arrived.topic, len(arrived.payload)):
            self._handle(arrived)

    def _handle(self, arrived: Arrived) -> None:
        if not arrived.payload:
            self._presence.cleared(arrived.topic)
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
            if self._presence.received(message, stored=arrived.retained):
                self._begin()
        elif not self._presence.settled:
            if sum(len(held.payload) for held in self._held) < HELD_BYTES:
                self._held.append(arrived)
        elif isinstance(message, Chunk):
            self._note_part(message.header, complete=self._downloads.add(message))
        elif isinstance(message, TrainDetail | CurrentRound | Selected | TrainEnd):
            self._feed(a.Received(message, self._clock()))

    def _note_part(self, part: ChunkHeader, *, complete: bool) -> None:
        step = self._jobs.receive(part) if complete else ""
        if isinstance(step, Info):  # it cannot go on; said again whenever this comes again
            self._downloads.private.pop(step.client, None)
            self._perform(a.Publish(step))
            return
        now = self._clock()
        self._feed(a.PartReceived(part.run, part.round, complete, now, part.client, step))

    def _refuse(self, arrived: Arrived, error: VersionError) -> None:
        first = self._dropped.note("version", arrived.topic, len(arrived.payload), str(error))
        if first and arrived.topic.endswith("/train_detail"):
            self._publish_problem(f"the coordinator {error}")

    def _publish_problem(self, problem: str) -> None:
        """Publish why this board cannot take part (or, empty, that it can again)."""
        if self._presence.publish_problem(problem) and problem:
            log.error("%s", problem)

    def _begin(self) -> None:
        """Our claim is settled: handle the messages that have waited for that."""
        clients = show_ids(self._settings.clients)
        log.info("board %s is ready: clients %s", self._settings.board, clients)
        held, self._held = self._held, []
        for arrived in held:
            self._receive(arrived)

    # what the agent decides

    def _feed(self, event: a.Event) -> None:
        if self._recorder is not None:
            self._recorder.write(event)
        self._state, actions = agent.step(self._policy, self._state, event)
        for action in actions:
            self._perform(action)

    def _perform(self, action: a.Action) -> None:
        log.debug("%s", action)
        match action:
            case a.OpenRun(detail):
                self._notifier.status(f"run {detail.run}")
                if not self._jobs.open_run(detail):
                    self._feed(a.OpenFailed(detail.run, self._clock()))
            case a.CloseRun(run):
                log.info("run %s is over on this board", run)
                self._notifier.status("waiting for an experiment")
                self._jobs.close_run(ended=run in self._state.ended)
            case a.StartJob(job):
                self._jobs.start(job)
            case a.CancelJob(job):
                self._jobs.cancel(job)
            case a.SendUpdate(client_id, round_number, again):
                update = UpdateKey(client_id, round_number)
                store = self._jobs.open_store
                packets = self._outgoing.packets(store, update, verify=again)
                self._link.stream(update, packets)
            case a.SendSecret(client_id, round_number, step):
                out = self._outgoing
                info = self._jobs.contribution(client_id, round_number, step, out)
                self._link.publish(packet(self._settings.federation, info))
            case a.Publish(message):
                stamped = self._gauges.stamp(message)
                self._link.publish(packet(self._settings.federation, stamped))
            case a.Prune(client_id, keep):
                self._jobs.open_store.prune(client_id, keep)
