"""Keeps the retained `connected` message of a party up to date; the shell around `claims.py`.

Used by the daemon and by the coordinator. Raises ClaimError when another party has our name,
clients or federation.
"""

from __future__ import annotations

import dataclasses
import math
import os
import platform
import time
from collections.abc import Callable

import msgspec

from common import VERSION
from common.errors import ClaimError
from common.wire import claims
from common.wire.messages import PROTOCOL, Connected, RoundLine, Telemetry
from common.wire.topics import Packet, connected_topic, packet

HISTORY_SECONDS = 2.0  # between two messages that differ in the history only


def first_claim(
    name: str, *, instance: str, starts: int, clients: tuple[int, ...] = (), what: str = ""
) -> Connected:
    """The claim of a party that starts; `what` it does is shown to people."""
    host = f"{platform.node()}, process {os.getpid()}"
    return Connected(
        protocol=PROTOCOL,
        version=VERSION,
        board=name,
        instance=instance,
        session=(starts, 0),
        connected=True,
        settled=False,
        since=time.time(),
        clients=clients,
        host=f"{what} on {host}" if what else host,
    )


class Presence:
    """Publishes who we are, receives who others are, and settles who may stay."""

    def __init__(
        self,
        federation: str,
        claim: Connected,
        publish: Callable[[Packet], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._federation = federation
        self._claims = claims.ClaimState(claim)
        self._publish = publish
        self._clock = clock
        self._history_published = -math.inf
        self._history_due = False

    @property
    def settled(self) -> bool:
        """Whether no other party objects to our claim."""
        return self._claims.claim.settled

    def will(self, connection: int) -> Packet:
        """The last will of one connection."""
        claim = self._claims.claim
        session = (claim.session[0], connection)
        gone = msgspec.structs.replace(claim, connected=False, settled=True, session=session)
        gone = msgspec.structs.replace(gone, telemetry=None, history=())
        return packet(self._federation, gone)

    def connected(self, connection: int) -> None:
        """A new connection is up: publish our claim."""
        self._take(claims.connect(self._claims, connection))

    def received(self, other: Connected, *, stored: bool) -> bool:
        """The claim of another party, or ours coming back; True if it settles ours."""
        now = self._clock()
        return self._take(claims.received(self._claims, other, stored=stored, now=now))

    def cleared(self, topic: str) -> None:
        """A retained message was deleted; if it was our claim, publish it again."""
        board = topic.rpartition("/")[2]
        if topic == connected_topic(self._federation, board):
            self._take(claims.cleared(self._claims, board))

    def tick(self) -> bool:
        """Time passes; True if that settles our claim."""
        return self._take(claims.tick(self._claims, self._clock()))

    def set_telemetry(self, telemetry: Telemetry | None) -> None:
        """How our hardware is; published with the next message."""
        self._change(telemetry=telemetry)

    def publish_history(self, history: tuple[RoundLine, ...]) -> None:
        """Publish the results of the run so far, but not many times a second."""
        if self._claims.claim.history != history:
            self._change(history=history)
            self._history_due = True
        now = self._clock()
        late = now - self._history_published >= HISTORY_SECONDS
        if self._history_due and self.settled and late:
            self._history_published, self._history_due = now, False
            self._publish(packet(self._federation, self._claims.claim))

    def publish_problem(self, problem: str) -> bool:
        """Publish why we cannot take part (or, empty, that we can); False if that is known."""
        if self._claims.claim.problem == problem[:1000]:
            return False
        self._change(problem=problem[:1000])
        self._publish(packet(self._federation, self._claims.claim))
        return True

    def publish_away(self, clients: tuple[int, ...]) -> None:
        """Publish which clients of a site have no board now."""
        if self._claims.claim.away != clients:
            self._change(away=clients)
            self._publish(packet(self._federation, self._claims.claim))

    def publish_leaving(self) -> None:
        """Publish that we leave: a clean disconnect sends no will."""
        claim = self._claims.claim
        if claim.settled:
            gone = msgspec.structs.replace(claim, connected=False, telemetry=None)
            self._publish(packet(self._federation, gone))

    def _change(self, **fields: object) -> None:
        claim = msgspec.structs.replace(self._claims.claim, **fields)
        self._claims = dataclasses.replace(self._claims, claim=claim)

    def _take(self, change: tuple[claims.ClaimState, tuple[claims.Outcome, ...]]) -> bool:
        self._claims, outcomes = change
        settled = False
        for outcome in outcomes:
            match outcome:
                case claims.PublishClaim(claim):
                    self._publish(packet(self._federation, claim))
                case claims.Settled():
                    settled = True
                case claims.Refused(reason, clear):
                    self._give_up(clear=clear)
                    raise ClaimError(reason)
        return settled

    def _give_up(self, *, clear: bool) -> None:
        self._change(settled=False)
        if clear:
            topic = connected_topic(self._federation, self._claims.claim.board)
            self._publish(Packet(topic, b"", retain=True))
