from __future__ import annotations

import queue

import pytest

from common.wire.inbox import BURST, SMALL, Inbox


@pytest.fixture
def inbox() -> Inbox[str]:
    return Inbox(1_000_000)


def taken(inbox: Inbox[str], seconds: float = 0.0) -> list[str]:
    found: list[str] = []
    while True:
        try:
            found.append(inbox.get(seconds))
        except queue.Empty:
            return found


def test_what_was_put_in_comes_out_in_order(inbox: Inbox[str]) -> None:
    for item in ("a", "b", "c"):
        assert inbox.put(item, 10, "sender") is None
    inbox.put("event")
    assert taken(inbox) == ["a", "b", "c", "event"]
    assert inbox.waiting == 0


def test_a_flood_displaces_its_own_messages_and_nobody_elses(inbox: Inbox[str]) -> None:
    flood = [f"junk {number}" for number in range(BURST + 100)]
    displaced = [old for item in flood if (old := inbox.put(item, 10, "flooder"))]
    assert len(displaced) > 10
    assert displaced == [item for item in flood if item in displaced], "the oldest first"
    assert inbox.put("honest", 10, "other") is None
    assert inbox.put("an event") is None
    assert inbox.put("a part", SMALL, "flooder") is None, "large ones wait for room instead"
    found = taken(inbox, 0.1)
    assert flood[-1] in found, "the newest message is never lost"
    assert sorted(found + displaced) == sorted([*flood, "honest", "an event", "a part"])
    assert inbox.waiting == 0


def test_a_sender_may_send_again_after_a_while(inbox: Inbox[str]) -> None:
    for number in range(BURST + 10):
        inbox.put(str(number), 10, "flooder")
    taken(inbox, 0.2)
    assert inbox.put("later", 10, "flooder") is None
    assert taken(inbox, 0.2) == ["later"]


def test_waiting_for_nothing_ends_in_time_also_while_something_is_held(
    inbox: Inbox[str],
) -> None:
    with pytest.raises(queue.Empty):
        inbox.get(0.0)
    for number in range(BURST + 1):
        inbox.put(str(number), 10, "flooder")
    assert len(taken(inbox)) >= BURST
