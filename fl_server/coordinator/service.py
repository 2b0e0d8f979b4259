"""The coordinator's shell: what arrives on the link becomes events for the round machine, and
its actions become messages and files. Decisions are in `rounds.py`."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import msgspec

from common import VERSION
from common.errors import (
    BrokerError,
    FedbedError,
    ProtocolError,
    VersionError,
)
from common.ids import show_ids
from common.wire.codec import cut
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
    COORDINATOR,
    PROTOCOL,
    Chunk,
    ClientMetrics,
    Connected,
    CurrentRound,
    Info,
    Message,
    Selected,
    TrainDetail,
    TrainEnd,
)
from common.wire.presence import Presence, first_claim
from common.wire.topics import Packet, packet, server_subscriptions, unpack, weights_topic
from fl_server.coordinator.conductor import Conductor, Observer, policy_of, resume_state
from fl_server.coordinator.history import History, both
from fl_server.coordinator.refusals import Refusals
from fl_server.coordinator.uploads import Uploads
from fl_server.rounds import machine as rounds
from fl_server.rounds.state import (
    Event,
    Finished,
    Gathering,
    Received,
    Reconnected,
    Tick,
    Working,
)
from fl_server.run.aggregator import Aggregator
from fl_server.run.store import RunStore

TICK_SECONDS = 0.2
WAITING_SECONDS = 10.0
MOST_HELD = 10_000

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Posted by whoever wants the coordinator to stop; the run can be resumed."""


class Coordinator:
    """One run, over a broker."""

    def __init__(
        self, store: RunStore, link: Link, *, federation: str, observe: Observer
    ) -> None:
        self._federation = federation
        self._store = store
        self._said_waiting = -WAITING_SECONDS
        self._private_topics: set[str] = set()
        self._held: list[Event] = []  # until nobody objects to our claim
        experiment = store.experiment()
        self._aggregator = Aggregator(store, experiment)
        incarnation = store.next_incarnation()
        self._detail = TrainDetail(
            protocol=PROTOCOL,
            version=VERSION,
            run=store.run,
            experiment=msgspec.Raw(msgspec.json.encode(experiment)),
        )
        policy = policy_of(store.run, experiment)
        state = resume_state(self._aggregator, incarnation)
        self._history = History(self._aggregator.lines())
        watched = both(self._history.observe, observe)
        self._conductor = Conductor(self._aggregator, policy, state, self, watched)
        self._refusals = Refusals(
            federation, self._conductor.tell, lambda client: self._conductor.state.owner(client)
        )
        self._uploads = Uploads(self._conductor, self._refusals, self._feed)
        claim = first_claim(
            COORDINATOR,
            instance=store.run,
            starts=incarnation,
            what=f"run {store.folder.name}",
        )
        self._link = link
        self._presence = Presence(federation, claim, link.publish)

    def stop(self) -> None:
        """Ask the coordinator to stop; may be called from a signal handler."""
        self._link.post(Interrupted())

    def fail(self, error: FedbedError) -> None:
        """End the run with an error that somebody else has found; from any thread."""
        self._link.post(error)

    def run(self) -> bool:
        """Work until the run has ended (True) or was interrupted (False)."""
        name = f"{self._federation}-coordinator-{self._store.run}"
        topics = server_subscriptions(self._federation)
        self._link.open(Session(name, topics, self._presence.will))
        self._conductor.tell_start()
        finished = False
        try:
            finished = self._serve()
        finally:
            if finished:
                self._clear_weights()
            self._presence.publish_history(self._history.lines)
            self._presence.publish_leaving()
            self._refusals.note_unheard(self._link.unheard())
            self._refusals.conclude()
            self._link.close(timeout=5.0, forget_session=finished)
            self._aggregator.close()
        return finished

    def _serve(self) -> bool:
        ticked = 0.0
        while not isinstance(self._conductor.state.phase, Finished):
            happening = self._link.receive(TICK_SECONDS)
            if isinstance(happening, Posted) and isinstance(happening.item, Interrupted):
                self._conductor.tell("interrupted")
                return False
            if happening is not None:
                self._take(happening)
            now = time.monotonic()
            if now - ticked >= TICK_SECONDS:
                ticked = now
                self._presence.publish_history(self._history.lines)
                if self._presence.tick():
                    self._begin()
                self._feed(Tick(now))
                self._say_whom_we_wait_for(now)
                self._refusals.note_unheard(self._link.unheard())
                self._refusals.report(now)
        return True

    def _clear_weights(self) -> None:
        """Retained parts of a model that nobody needs any more would stay in the broker."""
        blob = self._aggregator.download(self._conductor.policy.rounds + 1)
        for chunk in cut(blob, run=self._store.run, number=0, client=None):
            topic = weights_topic(self._federation, chunk.header.part)
            self._link.publish(Packet(topic, b"", retain=True))
        for topic in sorted(self._private_topics):
            self._link.publish(Packet(topic, b"", retain=True))

    # what happens

    def _take(self, happening: Happening) -> None:
        now = time.monotonic()
        match happening:
            case Up(connection):
                self._conductor.tell("broker_up", address=self._link.name)
                self._presence.connected(connection)
                self._feed(Reconnected(now))
            case Down(reason):
                self._conductor.tell("broker_down", address=self._link.name, text=reason)
            case Refused(reason):
                raise BrokerError(f"the broker at {self._link.name} refuses us: {reason}")
            case Arrived():
                self._hear(happening, now)
                self._link.confirm(happening)
            case Streamed():
                pass
            case Posted(item):
                self._take_posted(item)

    def _take_posted(self, item: object) -> None:
        if isinstance(item, FedbedError):
            raise item
        self._feed(cast("Event", item))  # only `aggregate` posts anything else

    def _feed(self, event: Event) -> None:
        if self._presence.settled:
            self._conductor.feed(event)
        elif not isinstance(event, Tick | Reconnected) and len(self._held) < MOST_HELD:
            self._held.append(event)

    def _hear(self, arrived: Arrived, now: float) -> None:
        if not arrived.payload:
            self._presence.cleared(arrived.topic)
            return
        size = len(arrived.payload)
        try:
            _, message = unpack(self._federation, arrived.topic, arrived.payload)
        except VersionError as error:
            self._refusals.problem(arrived.topic.rpartition("/")[2], str(error))
            return
        except ProtocolError as error:
            self._refusals.drop(arrived.topic, size, str(error))
            return
        if isinstance(message, Connected):
            if self._presence.received(message, stored=arrived.retained):
                self._begin()
            if message.board != COORDINATOR:
                self._meet(message, now)
        elif isinstance(message, Chunk):
            self._uploads.take(arrived.topic, message, now)
        else:
            self._take_message(arrived.topic, size, message, now)

    def _meet(self, message: Connected, now: float) -> None:
        self._refusals.problem(message.board, message.problem if message.connected else "")
        if message.connected and message.version != VERSION:
            text = f"has fedbed {message.version}, this server {VERSION}: results may differ"
            self._refusals.problem(message.board, text, about="version")
        self._conductor.tell(
            "presence",
            keep=False,
            board=message.board,
            connected=message.connected,
            clients=message.clients,
            host=message.host,
            telemetry=msgspec.to_builtins(message.telemetry),
        )
        self._feed(Received(message, now))

    def _take_message(self, topic: str, size: int, message: Message, now: float) -> None:
        if not isinstance(message, Info | ClientMetrics):
            self._refusals.drop(topic, size, "only the coordinator says this")
            return
        if message.run != self._store.run:
            self._refusals.drop(topic, size, "a message of another run")
            return
        self._aggregator.tally.bytes_up += size
        if isinstance(message, Info):
            self._aggregator.note_energy(message)
            self._conductor.tell("info", keep=False, **msgspec.to_builtins(message))
            self._conductor.note_trained(message)
        self._feed(Received(message, now))

    def _begin(self) -> None:
        """Nobody objects to our being here: take what has waited for that."""
        held, self._held = self._held, []
        for event in held:
            self._conductor.feed(event)
        self._conductor.feed(Reconnected(time.monotonic()))

    def _say_whom_we_wait_for(self, now: float) -> None:
        phase = self._conductor.state.phase
        if not isinstance(phase, Gathering) or now - self._said_waiting < WAITING_SECONDS:
            return
        self._said_waiting = now
        absent = rounds.missing(self._conductor.policy, self._conductor.state)
        if absent:
            text = f"waiting for boards with clients {show_ids(absent)}"
            self._conductor.tell("waiting", text=text, missing=absent)

    # the boards of the conductor

    def announce(self) -> None:
        """Publish train_detail."""
        self._link.publish(packet(self._federation, self._detail))

    def send_weights(self, round_number: int) -> None:
        """Publish the global model of a round, a part at a time."""
        blob = self._aggregator.download(round_number)
        boards = [b for b in self._conductor.state.boards.values() if b.lost_at is None]
        self._aggregator.tally.bytes_down += len(blob) * len(boards)
        self._link.stream(f"weights {round_number}", self._packets(round_number, blob, None))
        phase = self._conductor.state.phase
        for client in phase.selected if isinstance(phase, Working) else ():
            own = self._aggregator.private_download(round_number, client)
            if own is not None:
                self._aggregator.tally.bytes_down += len(own)
                packets = self._packets(round_number, own, client)
                self._link.stream(f"weights {round_number} to {client}", packets)

    def _packets(self, round_number: int, blob: bytes, client: int | None) -> Iterator[Packet]:
        """The parts of a download: of all clients, or of one."""
        run = self._store.run
        for chunk in cut(blob, run=run, number=round_number, client=client, down=True):
            ready = packet(self._federation, chunk)
            if client is not None:
                self._private_topics.add(ready.topic)
            yield ready

    def publish(self, message: CurrentRound | Selected | TrainEnd) -> None:
        """Publish a message."""
        self._link.publish(packet(self._federation, message))

    def aggregate(self, work: Callable[[], Event]) -> None:
        """Aggregate beside the network; the event comes back through the link's queue."""
        self._uploads.forget()
        event_or_error = _caught(work)
        threading.Thread(target=lambda: self._link.post(event_or_error()), daemon=True).start()


def _caught(work: Callable[[], Event]) -> Callable[[], object]:
    def run() -> object:
        try:
            return work()
        except FedbedError as error:
            return error
        except Exception as error:  # noqa: BLE001 - a thread's error must end the run, not vanish
            return FedbedError(f"aggregation failed: {type(error).__name__}: {error}")

    return run


def say_end_again(store: RunStore, link: Link, federation: str) -> bool:
    """Tell the boards once more that a finished run is over; False if the broker is away."""
    link.open(Session(f"{federation}-end-{store.run}"))
    happening = link.receive(10.0)
    said = isinstance(happening, Up)
    if said:
        link.publish(packet(federation, TrainEnd(run=store.run, reason="finished")))
    link.close(timeout=5.0, forget_session=True)
    return said
