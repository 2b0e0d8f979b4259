"""The coordinator's shell: what arrives on the link becomes events for the round machine, and
its actions become messages and files. Decisions are in `fl_server/rounds`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from common.errors import BrokerError, FedbedError
from common.ids import brief_ids
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
from common.wire.messages import COORDINATOR
from common.wire.presence import Presence, first_claim
from common.wire.topics import server_subscriptions
from fl_server.coordinator.arrivals import Arrivals
from fl_server.coordinator.background import Background, in_thread
from fl_server.coordinator.conductor import (
    Conductor,
    ForOwner,
    StartRecord,
    policy_of,
    resume_state,
)
from fl_server.coordinator.history import History, both
from fl_server.coordinator.refusals import Refusals
from fl_server.coordinator.sender import Sender
from fl_server.coordinator.uploads import Uploads
from fl_server.rounds import machine as rounds
from fl_server.rounds.control import control_state
from fl_server.rounds.requests import Requested
from fl_server.rounds.state import (
    Announce,
    Close,
    Event,
    Finished,
    Gathering,
    Publish,
    Reconnected,
    SendSecrets,
    SendWeights,
    Tick,
)
from fl_server.run.aggregator import Aggregator, ClosedRound
from fl_server.run.control import RequestReader
from fl_server.run.store import RunStore
from fl_server.watch import facts

TICK_SECONDS = 0.2
WAITING_SECONDS = 10.0
MOST_HELD = 10_000

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Posted when the coordinator is asked to stop; the run can be resumed."""


class Coordinator:
    """One run, over a broker.

    `background` does the work of closing a round beside the loop; tests do it at once.
    """

    def __init__(
        self,
        store: RunStore,
        link: Link,
        *,
        federation: str,
        observe: facts.Observer,
        background: Background = in_thread,
        clock: Callable[[], float] = time.monotonic,
        record: StartRecord | None = None,
    ) -> None:
        self._federation = federation
        self._store = store
        self._requests = RequestReader(store.folder)
        self._link = link
        self._background = background
        self._clock = clock
        self._interrupted = False
        self._begun = False
        self._ticked = -TICK_SECONDS
        self._reported_waiting = -WAITING_SECONDS
        self._held: list[Event] = []  # until our claim to be the coordinator is settled
        experiment = store.experiment()
        masked = experiment.privacy.secure
        aggregator = self._aggregator = Aggregator(store, experiment, masked=masked)
        incarnation = store.next_incarnation()
        policy = policy_of(store.run, experiment, masked=masked)
        state = resume_state(aggregator, policy, incarnation, clock())
        self._history = History(aggregator.lines(), aggregator.task.main.name)
        self.conductor = Conductor(
            aggregator,
            policy,
            state,
            both(self._history.observe, observe),
            clock=clock,
            record=record,
        )
        self._sender = Sender(link, federation, self.conductor, experiment)
        self._refusals = Refusals(
            federation,
            self.conductor.report,
            lambda client: self.conductor.state.owner(client),
        )
        self._uploads = Uploads(self.conductor, self._refusals)
        claim = first_claim(
            COORDINATOR,
            instance=store.run,
            starts=incarnation,
            what=f"run {store.folder.name}",
        )
        self._presence = Presence(federation, claim, link.publish, clock)
        self._arrivals = Arrivals(
            federation, self.conductor, self._presence, self._refusals, self._uploads
        )

    def stop(self) -> None:
        """Ask the coordinator to stop; may be called from a signal handler."""
        self._link.post(Interrupted())

    def fail(self, error: FedbedError) -> None:
        """End the run with an error that was found elsewhere; from any thread."""
        self._link.post(error)

    @property
    def finished(self) -> bool:
        """Whether the run has ended."""
        return isinstance(self.conductor.state.phase, Finished)

    def run(self) -> bool:
        """Work until the run has ended (True) or was interrupted (False)."""
        self.open()
        try:
            while self.advance():
                pass
        finally:
            self.close()
        return self.finished

    def open(self) -> None:
        """Connect, and report where the run stands."""
        name = f"{self._federation}-coordinator-{self._store.run}"
        topics = server_subscriptions(self._federation)
        self._link.open(Session(name, topics, self._presence.will))
        self.conductor.report_start()
        self._note_request()  # before anything that could open a round

    def _note_request(self) -> None:
        if (request := self._requests.changed()) is not None:
            self._feed(Requested(request, self._clock()))

    def advance(self) -> bool:
        """Handle the next happening and what is due; False if there is nothing left to do."""
        happening = self._link.receive(TICK_SECONDS)
        if happening is not None:
            self._take(happening)
        now = self._clock()
        if now - self._ticked >= TICK_SECONDS and not self._interrupted:
            self._ticked = now
            self._tick(now)
        stopped = self._requests.is_fulfilled(self.conductor.state)
        return not (self._interrupted or self.finished or stopped)

    def close(self) -> None:
        """Leave the broker and close the files; a run that has not ended can be resumed."""
        try:
            if self.finished:
                self._sender.clear_weights()
            self._presence.publish_history(self._history.lines)
            self._presence.publish_leaving()
            self._refusals.note_unread(self._link.unread())
            self._refusals.conclude()
            self._link.close(timeout=5.0, forget_session=self.finished)
        finally:
            self._aggregator.close()

    def _tick(self, now: float) -> None:
        self._presence.publish_history(self._history.lines)
        self._presence.tick()
        self._begin_if_settled()
        self._note_request()
        self._feed(Tick(now))
        if self._begun:
            self._presence.publish_problem(control_state(self.conductor.state))
        self._report_missing_boards(now)
        self._refusals.note_unread(self._link.unread())
        self._refusals.report(now)

    # events

    def _take(self, happening: Happening) -> None:
        now = self._clock()
        match happening:
            case Up(connection):
                self.conductor.report(facts.BrokerUp(address=self._link.name))
                self._presence.connected(connection)
                self._feed(Reconnected(now))
            case Down(reason):
                self.conductor.report(facts.BrokerDown(address=self._link.name, text=reason))
            case Refused(reason):
                raise BrokerError(f"the broker at {self._link.name} refuses us: {reason}")
            case Arrived():
                try:
                    event = self._arrivals.take(happening, now)
                finally:  # whatever it was, it is not delivered again: boards send again
                    self._link.confirm(happening)
                self._begin_if_settled()
                if event is not None:
                    self._feed(event)
            case Streamed():
                pass
            case Posted(item):
                self._take_posted(item)

    def _take_posted(self, item: object) -> None:
        match item:
            case FedbedError():
                raise item
            case Interrupted():
                self._interrupted = True
                self.conductor.report(facts.Interrupted())
            case ClosedRound():
                self._perform(self.conductor.finish_round(item))
            case _:
                raise AssertionError(f"nobody posts {item!r}")

    def _feed(self, event: Event) -> None:
        if self._begun:
            self._perform(self.conductor.feed(event))
        elif not isinstance(event, Tick | Reconnected) and len(self._held) < MOST_HELD:
            self._held.append(event)

    def _begin_if_settled(self) -> None:
        """Once our claim to be the coordinator is settled, handle what has waited for that."""
        if self._begun or not self._presence.settled:
            return
        self._begun = True
        held, self._held = self._held, []
        for event in held:
            self._perform(self.conductor.feed(event))
        self._perform(self.conductor.feed(Reconnected(self._clock())))

    def _report_missing_boards(self, now: float) -> None:
        phase = self.conductor.state.phase
        if not isinstance(phase, Gathering) or now - self._reported_waiting < WAITING_SECONDS:
            return
        self._reported_waiting = now
        absent = rounds.missing(self.conductor.policy, self.conductor.state)
        if absent:
            text = f"waiting for boards with clients {brief_ids(absent)}"
            self.conductor.report(facts.Waiting(text=text, missing=absent))

    # actions

    def _perform(self, actions: tuple[ForOwner, ...]) -> None:
        for action in actions:
            match action:
                case Announce():
                    self._sender.announce()
                case SendWeights(round_number):
                    self._sender.send_weights(round_number)
                case SendSecrets(round_number, clients):
                    self._sender.send_secrets(round_number, clients)
                case Publish(message):
                    self._sender.publish(message)
                case Close():
                    self._close_round(action)

    def _close_round(self, close: Close) -> None:
        """Aggregate beside the network; the result comes back through the link's queue."""
        self._uploads.forget()
        seconds = self.conductor.round_seconds
        self._background(lambda: self._link.post(self._closed(close, seconds)))

    def _closed(self, close: Close, seconds: float) -> ClosedRound | FedbedError:
        try:
            return self._aggregator.close_round(close, seconds)
        except FedbedError as error:
            return error
        except Exception as error:
            log.exception("aggregation failed")
            return FedbedError(f"aggregation failed: {type(error).__name__}: {error}")
