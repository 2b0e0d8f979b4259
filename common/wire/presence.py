"""Keeps a party's presence on the broker true; the shell around `claims.py`.

Used by the daemon and by the coordinator. Raises ClaimError when somebody else has our place.
"""

from __future__ import annotations

import dataclasses
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

RECALL_SECONDS = 2.0  # between two announcements that differ in the history only


def first_claim(
    name: str, *, instance: str, starts: int, clients: tuple[int, ...] = (), what: str = ""
) -> Connected:
    """What a party says of itself when it starts; `what` is for people."""
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
    """Says who we are, hears who others are, and settles who may stay."""

    def __init__(
        self,
        federation: str,
        claim: Connected,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._federation = federation
        self._claims = claims.ClaimState(claim)
        self._send: Callable[[Packet], bool] | None = None
        self._recalled = -RECALL_SECONDS
        self._recall_due = False

    def use(self, publish: Callable[[Packet], bool]) -> None:
        """Publish through this from now on."""
        self._send = publish

    @property
    def settled(self) -> bool:
        """Whether nobody objects to our being here."""
        return self._claims.claim.settled

    def will(self, connection: int) -> Packet:
        """The last will of one connection."""
        claim = self._claims.claim
        session = (claim.session[0], connection)
        gone = msgspec.structs.replace(claim, connected=False, settled=True, session=session)
        gone = msgspec.structs.replace(gone, telemetry=None, history=())
        return packet(self._federation, gone)

    def connected(self, connection: int) -> None:
        """A new connection is there: say who we are."""
        self._take(claims.connect(self._claims, connection))

    def hear(self, other: Connected, *, stored: bool) -> bool:
        """Somebody's announcement; True if we are settled by it."""
        now = self._clock()
        return self._take(claims.hear(self._claims, other, stored=stored, now=now))

    def hear_cleared(self, topic: str) -> None:
        """A stored announcement was deleted; if it was ours, say it again."""
        board = topic.rpartition("/")[2]
        if topic == connected_topic(self._federation, board):
            self._take(claims.cleared(self._claims, board))

    def tick(self) -> bool:
        """Time passes; True if we are settled by it."""
        return self._take(claims.tick(self._claims, self._clock()))

    def measure(self, telemetry: Telemetry | None) -> None:
        """How our hardware is; said with the next announcement."""
        claim = msgspec.structs.replace(self._claims.claim, telemetry=telemetry)
        self._claims = dataclasses.replace(self._claims, claim=claim)

    def recall(self, history: tuple[RoundLine, ...]) -> None:
        """What the run has brought so far; said now, but not many times a second."""
        if self._claims.claim.history != history:
            claim = msgspec.structs.replace(self._claims.claim, history=history)
            self._claims = dataclasses.replace(self._claims, claim=claim)
            self._recall_due = True
        now = self._clock()
        if self._recall_due and self.settled and now - self._recalled >= RECALL_SECONDS:
            self._recalled, self._recall_due = now, False
            self._publish(packet(self._federation, self._claims.claim))

    def complain(self, problem: str) -> bool:
        """Tell everybody why we cannot take part (or, empty, that we can); False if known."""
        claim = self._claims.claim
        if claim.problem == problem[:1000]:
            return False
        claim = msgspec.structs.replace(claim, problem=problem[:1000])
        self._claims = dataclasses.replace(self._claims, claim=claim)
        self._publish(packet(self._federation, claim))
        return True

    def say_farewell(self) -> None:
        """A clean disconnect sends no will, so we say ourselves that we are gone."""
        claim = self._claims.claim
        if claim.settled:
            gone = msgspec.structs.replace(claim, connected=False, telemetry=None)
            self._publish(packet(self._federation, gone))

    def _publish(self, item: Packet) -> None:
        assert self._send is not None
        self._send(item)

    def _take(self, change: tuple[claims.ClaimState, tuple[claims.Outcome, ...]]) -> bool:
        self._claims, outcomes = change
        settled = False
        for outcome in outcomes:
            match outcome:
                case claims.Say(claim):
                    self._publish(packet(self._federation, claim))
                case claims.Settled():
                    settled = True
                case claims.Beaten(reason, clear):
                    self._give_up(clear=clear)
                    raise ClaimError(reason)
        return settled

    def _give_up(self, *, clear: bool) -> None:
        claim = msgspec.structs.replace(self._claims.claim, settled=False)
        self._claims = dataclasses.replace(self._claims, claim=claim)
        if clear:
            topic = connected_topic(self._federation, claim.board)
            self._publish(Packet(topic, b"", retain=True))
