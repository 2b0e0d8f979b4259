"""What a party adds to its presence: sensors and history."""

from __future__ import annotations

import time
from collections.abc import Callable

from common.wire.json_codec import decode
from common.wire.messages import Connected, RoundLine, Telemetry
from common.wire.presence import HISTORY_SECONDS, Presence, first_claim
from common.wire.topics import Packet


class RecordingLink:
    """A link that only remembers."""

    def __init__(self) -> None:
        self.published: list[Connected] = []

    def publish(self, packet: Packet) -> bool:
        self.published.append(decode(packet.payload, Connected))
        return True


def settled(clock: Callable[[], float] = time.monotonic) -> tuple[Presence, RecordingLink]:
    link = RecordingLink()
    presence = Presence("fl", first_claim("b", instance="i", starts=1), link.publish, clock)
    presence.connected(1)
    assert presence.received(link.published[-1], stored=False)
    return presence, link


def test_sensors_are_published_with_the_next_message_and_never_by_the_last_will() -> None:
    presence, link = settled()
    before = len(link.published)
    presence.set_telemetry(Telemetry(celsius=40.0))
    assert len(link.published) == before
    presence.publish_problem("no data")
    assert link.published[-1].telemetry == Telemetry(celsius=40.0)
    assert decode(presence.will(2).payload, Connected).telemetry is None
    presence.publish_leaving()
    assert link.published[-1].telemetry is None


def test_history_is_published_when_it_changes_but_not_many_times_a_second() -> None:
    now = [100.0]
    presence, link = settled(lambda: now[0])
    first: tuple[RoundLine, ...] = (RoundLine(round=1),)
    second = (*first, RoundLine(round=2))
    presence.publish_history(first)
    assert link.published[-1].history == first
    count = len(link.published)
    presence.publish_history(first)
    presence.publish_history(second)
    assert len(link.published) == count
    now[0] += HISTORY_SECONDS
    presence.publish_history(second)
    assert len(link.published) == count + 1
    assert link.published[-1].history == second
    assert decode(presence.will(2).payload, Connected).history == ()
    presence.publish_history(first)
    presence.publish_leaving()
    assert link.published[-1].history == first, "the last message has the newest"
