from __future__ import annotations

from common.wire.drop_counter import MOST_KINDS, MOST_SENDERS, DropCounter


def test_what_is_dropped_is_counted_per_kind_and_sender_and_said_once() -> None:
    dropped = DropCounter()
    said = [
        dropped.note(f"info: {size} bytes", "t", size, "r", sender=sender)
        for size, sender in ((1, "a"), (22, "a"), (3, "b"))
    ]
    assert said == [True, False, False], "a number in the reason makes no other kind"
    assert dropped.counts() == {"info: * bytes": 3}
    assert dropped.by_sender() == {"a": {"info: * bytes": 2}, "b": {"info: * bytes": 1}}


def test_what_others_send_does_not_decide_how_much_is_kept() -> None:
    dropped = DropCounter()
    words = [f"{chr(97 + a)}{chr(97 + b)}" for a in range(26) for b in range(26)]
    firsts = [dropped.note(word, "t", 1, "r") for word in words]
    for number in range(2 * MOST_SENDERS):
        dropped.add("kind", f"sender {number}", 1)
    assert sum(firsts) <= MOST_KINDS + 1
    assert len(dropped.counts()) <= MOST_KINDS + 1
    assert len(dropped.by_sender()) <= MOST_SENDERS + 1
    assert sum(dropped.counts().values()) == len(words) + 2 * MOST_SENDERS
