"""What a party adds to its presence: sensors and history."""

from __future__ import annotations

import pytest

from common.wire.json_codec import decode
from common.wire.messages import Connected, RoundLine, Telemetry
from common.wire.presence import RECALL_SECONDS, Presence, first_claim
from common.wire.topics import Packet


class Recorder:
    """A link that only remembers."""

    def __init__(self) -> None:
        self.said: list[Connected] = []

    def publish(self, packet: Packet) -> bool:
        self.said.append(decode(packet.payload, Connected))
        return True


def settled() -> tuple[Presence, Recorder]:
    presence, link = Presence("fl", first_claim("b", instance="i", starts=1)), Recorder()
    presence.use(link.publish)
    presence.connected(1)
    assert presence.hear(link.said[-1], stored=False)
    return presence, link


def test_sensors_are_said_with_the_next_word_and_never_by_the_last_will() -> None:
    presence, link = settled()
    before = len(link.said)
    presence.measure(Telemetry(celsius=40.0))
    assert len(link.said) == before
    presence.complain("no data")
    assert link.said[-1].telemetry == Telemetry(celsius=40.0)
    assert decode(presence.will(2).payload, Connected).telemetry is None
    presence.say_farewell()
    assert link.said[-1].telemetry is None


def test_history_is_said_when_it_changes_but_not_many_times_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("common.wire.presence.time.monotonic", lambda: now[0])
    presence, link = settled()
    first: tuple[RoundLine, ...] = (RoundLine(round=1),)
    second = (*first, RoundLine(round=2))
    presence.recall(first)
    assert link.said[-1].history == first
    count = len(link.said)
    presence.recall(first)
    presence.recall(second)
    assert len(link.said) == count
    now[0] += RECALL_SECONDS
    presence.recall(second)
    assert len(link.said) == count + 1
    assert link.said[-1].history == second
    assert decode(presence.will(2).payload, Connected).history == ()
    presence.recall(first)
    presence.say_farewell()
    assert link.said[-1].history == first, "the farewell has the newest"
