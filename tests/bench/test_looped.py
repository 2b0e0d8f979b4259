from __future__ import annotations

import time
from collections.abc import Callable

from bench.looped import Loop, LoopedLink
from broker.process import Broker
from common.access.address import Address
from common.wire.link import Arrived, Happening, Session, Streamed, Up
from common.wire.topics import Packet

PATIENCE = 30.0
PART = bytes(500_000)  # more than a socket takes at once


class Party:
    """A link in a loop, and what happened on it."""

    def __init__(self, loop: Loop, broker: Broker, name: str, *topics: str) -> None:
        self.seen: list[Happening] = []
        address = Address(broker.host, broker.port)
        self.link = LoopedLink(address, loop, self.serve, lambda: None)
        self.link.open(Session(name, topics))

    def serve(self) -> None:
        while (happening := self.link.receive(0.0)) is not None:
            self.seen.append(happening)
            if isinstance(happening, Arrived):
                self.link.confirm(happening)

    @property
    def payloads(self) -> list[bytes]:
        return [one.payload for one in self.seen if isinstance(one, Arrived)]


def turn_until(loop: Loop, done: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end
        loop.turn()


def test_many_links_of_one_loop_send_and_get_large_messages(
    broker: Broker, federation: str
) -> None:
    loop = Loop()
    places = [f"{federation}/{at}" for at in range(20)]
    parties = [Party(loop, broker, place, place, f"{federation}/all") for place in places]
    turn_until(loop, lambda: all(Up(1) in party.seen for party in parties))
    for party, place in zip(parties, places, strict=True):
        party.link.publish(Packet(place, b"subscribed", retain=False))
    turn_until(loop, lambda: all(party.payloads == [b"subscribed"] for party in parties))
    parts = [bytes([part]) + PART for part in range(12)]
    packets = (Packet(f"{federation}/all", part, retain=False) for part in parts)
    parties[0].link.stream("all", packets)
    turn_until(loop, lambda: Streamed("all") in parties[0].seen)
    turn_until(loop, lambda: all(party.payloads[1:] == parts for party in parties))


def test_a_link_of_a_loop_connects_again(own_broker: Broker, federation: str) -> None:
    loop = Loop()
    party = Party(loop, own_broker, federation, f"{federation}/+")
    turn_until(loop, lambda: Up(1) in party.seen)
    own_broker.kill()
    own_broker.start()
    turn_until(loop, lambda: any(isinstance(one, Up) for one in party.seen[1:]))
    party.link.publish(Packet(f"{federation}/word", b"again", retain=False))
    turn_until(loop, lambda: b"again" in party.payloads)
