"""The relay's shell: what happens on its two links becomes events for its machine, and the
machine's actions become messages and files. Decisions are in `machine.py`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from common.disk.identity import Identity
from common.errors import (
    BrokerError,
    ProtocolError,
    VersionError,
)
from common.ids import show_ids
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
    COORDINATOR,
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
from common.wire.topics import board_subscriptions, server_subscriptions, unpack
from fl_server.site import machine
from fl_server.site.effects import Effects
from fl_server.site.files import SiteFiles
from fl_server.site.settings import Settings
from fl_server.site.state import (
    Event,
    FromBoard,
    FromCoordinator,
    PartReceived,
    Policy,
    SendSum,
    SiteUp,
    State,
    Stored,
    Strayed,
    SumStreamed,
    Tick,
    UplinkUp,
)

TICK_SECONDS = 0.25
HELD_BYTES = 64 * 1024**2  # of messages that wait until both claims are settled

log = logging.getLogger(__name__)


class _Stop:
    """Posted to end the relay."""


class Relay:
    """One site: its two links, its files and its machine."""

    def __init__(
        self,
        settings: Settings,
        identity: Identity,
        *,
        site: Link,
        uplink: Link,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._instance = identity.instance
        self._clock = clock
        self._site, self._uplink = site, uplink
        self._policy = Policy(settings.site, settings.clients, identity.starts)
        self.state = State()
        self._dropped = DropCounter()
        self._files = SiteFiles(settings.state)
        self._held: list[tuple[bool, Arrived]] = []  # until both claims are settled
        self._begun = False
        self._ticked = clock()
        who, starts = identity.instance, identity.starts
        below = first_claim(
            COORDINATOR, instance=who, starts=starts, what=f"site {settings.site}"
        )
        above = first_claim(
            settings.site, instance=who, starts=starts, clients=settings.clients, what="relay"
        )
        self._below = Presence(settings.federation, below, site.publish, clock)
        self._above = Presence(settings.uplink_federation, above, uplink.publish, clock)
        self._effects = Effects(settings, site, uplink, self._above, self._files, clock)

    def stop(self) -> None:
        """Ask the relay to end; may be called from a signal handler."""
        self._site.post(_Stop())

    def run(self) -> None:
        """Relay until `stop`; raises when this relay cannot be what it claims."""
        self.open()
        try:
            while self.advance():
                pass
        finally:
            self.close()

    def open(self) -> None:
        """Connect to both brokers."""
        settings = self._settings
        fed, up = settings.federation, settings.uplink_federation
        name = f"{fed}-relay-{settings.site}-{self._instance}"
        self._site.open(Session(name, server_subscriptions(fed), self._below.will))
        topics = board_subscriptions(up, settings.clients)
        name = f"{up}-{settings.site}-{self._instance}"
        self._uplink.open(Session(name, topics, self._above.will))

    def close(self) -> None:
        """Publish on both sides that this relay leaves, and disconnect."""
        for presence, link in ((self._above, self._uplink), (self._below, self._site)):
            presence.publish_leaving()
            link.close()

    def advance(self) -> bool:
        """Handle the next thing that happens, and what is due; False if it was a `stop`."""
        happening = self._uplink.receive(0.0)
        if happening is not None:
            self._take(happening, above=True)
        else:
            below = self._site.receive(TICK_SECONDS)
            if isinstance(below, Posted) and isinstance(below.item, _Stop):
                log.info("stopping")
                return False
            if below is not None:
                self._take(below, above=False)
        if self._clock() - self._ticked >= TICK_SECONDS:
            self._ticked = self._clock()
            self._below.tick()
            self._above.tick()
            self._begin_if_settled()
            self._feed(Tick(self._ticked))
        return True

    # from the links

    def _take(self, happening: Happening, *, above: bool) -> None:
        link = self._uplink if above else self._site
        presence = self._above if above else self._below
        where = "coordinator's" if above else "site's"
        match happening:
            case Up(connection):
                log.info("connected to the %s broker at %s", where, link.name)
                presence.connected(connection)
                now = self._clock()
                self._feed(UplinkUp(now) if above else SiteUp(now))
            case Down(reason):
                log.warning("no %s broker at %s (%s); trying again", where, link.name, reason)
            case Refused(reason):
                raise BrokerError(f"the {where} broker at {link.name} refuses us: {reason}")
            case Arrived():
                try:
                    self._receive(happening, above=above)
                finally:  # whatever it was, it is not delivered again: everybody repeats
                    link.confirm(happening)
            case Streamed(token):
                if isinstance(token, SendSum):
                    self._feed(SumStreamed(token.round, token.clients, self._clock()))
            case Posted():
                pass  # the other link has something

    def _receive(self, arrived: Arrived, *, above: bool) -> None:
        with self._dropped.guard(arrived.topic, len(arrived.payload)):
            self._handle(arrived, above=above)

    def _handle(self, arrived: Arrived, *, above: bool) -> None:
        presence = self._above if above else self._below
        settings = self._settings
        federation = settings.uplink_federation if above else settings.federation
        if not arrived.payload:
            presence.cleared(arrived.topic)
            return
        try:
            row, message = unpack(federation, arrived.topic, arrived.payload)
        except (VersionError, ProtocolError) as error:
            first = self._drop(arrived, str(error))
            if first and above and isinstance(error, VersionError):
                self._effects.publish_problem(f"the coordinator {error}")
            return
        if isinstance(message, Connected):
            presence.received(message, stored=arrived.retained)
            self._begin_if_settled()
            if above or message.board == COORDINATOR:
                return
        if not self._begun:
            held = sum(len(each.payload) for _, each in self._held)
            if held < HELD_BYTES:
                self._held.append((above, arrived))
            return
        if arrived.retained and not row.retained:
            self._drop(arrived, "a stored message of a kind that is not stored")
            return
        self._handle_message(arrived, message, above=above)

    def _handle_message(self, arrived: Arrived, message: Message, *, above: bool) -> None:
        now = self._clock()
        match message:
            case TrainDetail() | CurrentRound() | Selected() | TrainEnd() if above:
                self._feed(FromCoordinator(message, now))
            case Chunk(header=header) if above:
                if header.client is None:
                    complete = self._files.take_part(message)
                    self._feed(PartReceived(header.run, header.round, complete, now))
            case Chunk():
                self._take_update(arrived, message, now)
            case Connected() | Info() | ClientMetrics() if not above:
                self._feed(FromBoard(message, now))
            case _:
                self._drop(arrived, "nobody publishes this here")

    def _take_update(self, arrived: Arrived, chunk: Chunk, now: float) -> None:
        """One part of an update; verified and on disk before it is reported."""
        header = chunk.header
        client = header.client if header.client is not None else -1
        run, number = header.run, header.round
        wanted = machine.wants(
            self._policy, self.state, run=run, round_number=number, client=client
        )
        if not wanted:
            self._feed(Strayed(now))
            return
        try:
            odd = self._files.take_update(client, chunk)
        except ProtocolError as error:
            self._drop(arrived, str(error))
            return
        if odd is not None:
            self._feed(Stored(run, number, client, odd, now))

    def _drop(self, arrived: Arrived, reason: str) -> bool:
        kind = f"{arrived.topic.split('/')[-2:]}: {reason.split(':')[0]}"
        return self._dropped.note(kind, arrived.topic, len(arrived.payload), reason)

    def _begin_if_settled(self) -> None:
        """Once both claims are settled, handle what has waited for that."""
        if self._begun or not (self._below.settled and self._above.settled):
            return
        self._begun = True
        clients = show_ids(self._settings.clients)
        log.info("site %s is ready: clients %s", self._settings.site, clients)
        held, self._held = self._held, []
        for above, arrived in held:
            self._receive(arrived, above=above)
        self._feed(SiteUp(self._clock()))

    # what the machine decides

    def _feed(self, event: Event) -> None:
        if not self._begun:
            return
        self.state, actions = machine.step(self._policy, self.state, event)
        for action in actions:
            log.debug("%s", action)
            following = self._effects.perform(action)
            if following is not None:
                self._feed(following)
