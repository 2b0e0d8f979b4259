"""Updates on their way in: parts are put together, verified, stored, and only then reported."""

from __future__ import annotations

from common.errors import ProtocolError, StrayUpdateError
from common.wire.assembly import Assembly
from common.wire.messages import Chunk
from fl_server.coordinator.conductor import Conductor
from fl_server.coordinator.refusals import Refusals
from fl_server.rounds import machine as rounds
from fl_server.rounds.state import Event, Rejected, Stored, Strayed
from fl_server.run.updates.assemblies import Assemblies
from fl_server.run.updates.site_sums import members_of
from fl_server.watch import facts


class Uploads:
    """The updates of the open round that are not yet complete."""

    def __init__(self, conductor: Conductor, refusals: Refusals) -> None:
        self._conductor = conductor
        self._aggregator = conductor.aggregator
        self._refusals = refusals
        self._assemblies = Assemblies(conductor.aggregator.store.updates.part_path)
        self._stored: set[tuple[int, int]] = set()  # the machine may not know of it yet

    def forget(self) -> None:
        """The round is closed; who trains on in the next one may go on sending."""
        self._assemblies.forget(self._conductor.state.busy)
        self._stored.clear()

    def take(self, topic: str, chunk: Chunk, now: float) -> Event | None:
        """One part of an update, or of something that claims to be one; what it means."""
        header = chunk.header
        client = header.client if header.client is not None else -1
        self._aggregator.tally.bytes_up += len(chunk.body)
        if (header.round, client) in self._stored or not rounds.wants(
            self._conductor.policy,
            self._conductor.state,
            run=header.run,
            round_number=header.round,
            client=client,
        ):
            self._refuse(topic, chunk, client)
            return Strayed(now)
        if header.size > self._aggregator.largest_update:
            self._refusals.drop(topic, header.size, "an update far larger than the model")
            return None
        assembly = self._assemblies.add(client, chunk)
        return None if assembly is None else self._complete(topic, assembly, now)

    def _refuse(self, topic: str, chunk: Chunk, client: int) -> None:
        header, conductor = chunk.header, self._conductor
        if conductor.state.busy.get(client) == header.round:
            return  # between two rounds: it is sent again
        if not rounds.missed(
            conductor.policy,
            conductor.state,
            run=header.run,
            round_number=header.round,
            client=client,
        ):
            self._refusals.drop(
                topic, len(chunk.body), "an update that is repeated or not asked for"
            )
        else:
            self._refusals.late(client, header.round)

    def _complete(self, topic: str, assembly: Assembly, now: float) -> Event | None:
        """An update is complete: verify it, make it safe, and only then report it."""
        client, round_number = assembly.header.client, assembly.header.round
        assert client is not None, "an update is a client's"
        try:
            blob = assembly.take()
        except ProtocolError as error:
            self._refusals.drop(topic, assembly.header.size, str(error))
            assembly.discard()
            return None
        try:
            others = self._others_in(client, round_number, blob)
            self._aggregator.accept(round_number, client, blob, assembly)
        except StrayUpdateError as error:
            assembly.discard()
            self._refusals.drop(topic, len(blob), str(error))
            return Strayed(now)
        except ProtocolError as error:
            assembly.discard()
            self._refusals.reject(client)
            return Rejected(client, round_number, str(error), now)
        for member in (client, *others):
            size = len(blob) if member == client else 0  # a sum travels once
            self._conductor.report(facts.Update(client=member, round=round_number, bytes=size))
            self._stored.add((round_number, member))
        return Stored(client, round_number, now, others)

    def _others_in(self, client: int, round_number: int, blob: bytes) -> tuple[int, ...]:
        """Who else is in a sum; StrayUpdateError if they are another's, or counted already."""
        state, policy = self._conductor.state, self._conductor.policy
        others = tuple(each for each in members_of(blob) if each != client)
        for each in others:
            if state.owner(each) is None or state.owner(each) != state.owner(client):
                raise StrayUpdateError("a sum with clients of other boards")
            wanted = rounds.wants(
                policy, state, run=policy.run, round_number=round_number, client=each
            )
            if not wanted or (round_number, each) in self._stored:
                raise StrayUpdateError("a sum with updates that are here, or not asked for")
        return others
