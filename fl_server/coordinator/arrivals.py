"""What boards send becomes events of the round machine, or is refused and counted."""

from __future__ import annotations

import logging

from common import VERSION
from common.data.reported import check_data
from common.errors import ClaimError, ProtocolError, StoreError, VersionError
from common.texts import printable
from common.wire.json_codec import decode
from common.wire.link import Arrived
from common.wire.messages import (
    COORDINATOR,
    Chunk,
    ClientMetrics,
    Connected,
    Info,
    Job,
    Message,
)
from common.wire.presence import Presence
from common.wire.topics import TEST_METRICS, parse, unpack
from fl_server.coordinator.conductor import Conductor
from fl_server.coordinator.refusals import Refusals
from fl_server.coordinator.uploads import Uploads
from fl_server.rounds import machine as rounds
from fl_server.rounds.sealing import wants_secret
from fl_server.rounds.state import Answered, Event, Received, Strayed, Uncountable
from fl_server.run.updates.secure_journal import step_of
from fl_server.watch import facts
from fl_server.watch.facts.making import presence

log = logging.getLogger(__name__)


class Arrivals:
    """Reads one message at a time."""

    def __init__(
        self,
        federation: str,
        conductor: Conductor,
        own_presence: Presence,
        refusals: Refusals,
        uploads: Uploads,
    ) -> None:
        self._federation = federation
        self._conductor = conductor
        self._presence = own_presence
        self._refusals = refusals
        self._uploads = uploads

    def take(self, arrived: Arrived, now: float) -> Event | None:
        """The event that a message means, if it means one.

        A message that we fail to handle is our error, but it must not end the run: it is
        dropped like any other that cannot be used. Only a rival's claim and a full disk end it.
        """
        try:
            return self._take(arrived, now)
        except (ClaimError, StoreError):
            raise
        except Exception as error:
            reason = f"cannot be handled ({type(error).__name__})"
            if self._refusals.drop(arrived.topic, len(arrived.payload), reason):
                log.exception("a message on %s could not be handled", arrived.topic[:200])
            return None

    def _take(self, arrived: Arrived, now: float) -> Event | None:
        if not arrived.payload:
            self._presence.cleared(arrived.topic)
            return None
        topic, size = arrived.topic, len(arrived.payload)
        try:
            row, message = unpack(self._federation, topic, arrived.payload)
        except VersionError as error:
            name = printable(topic.rpartition("/")[2][:120])
            self._refusals.problem(name, str(error))
            return None
        except ProtocolError as error:
            self._refusals.drop(topic, size, str(error))
            return self._uncountable(arrived, str(error), now)
        if arrived.retained and not row.retained:
            self._refusals.drop(topic, size, "a stored message of a kind that is not stored")
            return None
        if isinstance(message, Connected):
            self._presence.received(message, stored=arrived.retained)
            return None if message.board == COORDINATOR else self._take_presence(message, now)
        if isinstance(message, Chunk):
            return self._uploads.take(topic, message, now)
        return self._take_message(topic, size, message, now)

    def _uncountable(self, arrived: Arrived, reason: str, now: float) -> Event | None:
        """Counts that cannot be decoded, of a client that the round waits for."""
        try:
            row, last = parse(self._federation, arrived.topic)
            if row is not TEST_METRICS or arrived.retained:
                return None
            job = decode(arrived.payload, Job)
        except ProtocolError:
            return None
        state, run = self._conductor.state, self._conductor.policy.run
        wanted = rounds.wants_counts(state, round_number=job.round, client=job.client)
        if not wanted or (job.run, str(job.client)) != (run, last):
            return None
        self._refusals.reject(job.client)
        return Uncountable(job.client, job.round, reason, now)

    def _take_presence(self, message: Connected, now: float) -> Event:
        self._refusals.problem(message.board, message.problem if message.connected else "")
        if message.connected and message.version != VERSION:
            text = f"has fedbed {message.version}, this server {VERSION}: results may differ"
            self._refusals.problem(message.board, text, about="version")
        self._conductor.report(presence(message, connected=message.connected))
        return Received(message, now)

    def _take_message(
        self, topic: str, size: int, message: Message, now: float
    ) -> Event | None:
        if not isinstance(message, Info | ClientMetrics):
            self._refusals.drop(topic, size, "only the coordinator publishes this")
            return None
        if message.run != self._conductor.policy.run:
            self._refusals.drop(topic, size, "a message of another run")
            return None
        self._conductor.aggregator.tally.bytes_up += size
        if isinstance(message, Info):
            return self._take_info(topic, size, message, now)
        state, client = self._conductor.state, message.client
        try:
            if rounds.wants_counts(state, round_number=message.round, client=client):
                self._conductor.aggregator.checks.check_tests(message)
        except ProtocolError as error:
            self._refusals.reject(message.client)
            return Uncountable(message.client, message.round, str(error), now)
        return Received(message, now)

    def _take_info(self, topic: str, size: int, info: Info, now: float) -> Event | None:
        known = info.client in self._conductor.policy.participants
        owner = self._conductor.state.owner(info.client) or info.board  # we may be new here
        if not known or owner != info.board:
            self._refusals.drop(topic, size, "info of a board that does not have the client")
            return None
        if info.state == "data":
            return self._take_data(topic, size, info, now)
        if info.secret is not None:
            return self._take_secret(topic, size, info, now)
        self._conductor.aggregator.note_energy(info)
        self._conductor.report(facts.Info(info=info))
        self._conductor.note_trained(info)
        return Received(info, now)

    def _take_secret(self, topic: str, size: int, info: Info, now: float) -> Event | None:
        """What a client contributes to a step of a secured round; never shown to anybody."""
        journal, secret = self._conductor.aggregator.secure, info.secret
        if journal is None or secret is None:
            self._refusals.drop(topic, size, "a step of a secured round, which this is not")
            return None
        place = {"round_number": info.round, "client": info.client}
        if not wants_secret(self._conductor.state, step=step_of(secret), **place):
            return Strayed(now)
        try:
            step = journal.keep(info.round, info.client, secret)
        except ProtocolError as error:
            self._refusals.drop(topic, size, str(error))
            return None
        return Answered(info.client, info.round, step, now)

    def _take_data(self, topic: str, size: int, info: Info, now: float) -> Event | None:
        try:
            if info.data is not None:
                check_data(self._conductor.aggregator.experiment.data, info.data)
        except ProtocolError as error:
            self._refusals.drop(topic, size, str(error))
            return None
        return Received(info, now)
