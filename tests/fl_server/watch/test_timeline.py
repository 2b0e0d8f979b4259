"""Strips of who trained when."""

from __future__ import annotations

from fl_server.watch import facts
from fl_server.watch.facts import Fact
from fl_server.watch.timeline import SPANS, Span, Timeline
from tests.fl_server.watch.some_facts import info, present


def after(*reported: Fact) -> Timeline:
    timeline = Timeline()
    for fact in reported:
        timeline = timeline.after(fact, owner="b")
    return timeline


def opened(round_number: int, time: float) -> Fact:
    return facts.RoundOpened(round_number, (), (), time=time)


def measured(client: int, time: float) -> Fact:
    return facts.Tested(client, 1, time=time)


def test_a_training_is_a_span_from_its_first_message_to_its_result() -> None:
    timeline = after(
        opened(1, 1.0),
        info("b", 4, "training", 1, 2.0),
        info("b", 4, "training", 1, 3.0, epoch=1),
        info("b", 4, "trained", 1, 5.0, seconds=2.9),
        info("b", 4, "trained", 1, 8.0, seconds=2.9),  # published again
    )
    assert timeline.lanes == {"b": (Span(4, 1, "train", 2.0, 5.0),)}
    assert timeline.marks == ((1, 1.0),)


def test_who_comes_after_a_training_began_still_sees_all_of_it() -> None:
    timeline = after(info("b", 4, "trained", 1, 5.0, seconds=3.0))
    assert timeline.lanes["b"] == (Span(4, 1, "train", 2.0, 5.0),)


def test_a_test_ends_with_its_counts() -> None:
    timeline = after(info("b", 4, "testing", 1, 2.0), measured(9, 2.5), measured(4, 3.0))
    assert timeline.lanes["b"] == (Span(4, 1, "test", 2.0, 3.0),)


def test_a_lost_boards_work_is_cut_and_begins_anew_when_it_is_back() -> None:
    timeline = after(
        info("b", 4, "training", 1, 2.0),
        present("b", (4,), 3.0, here=False),
        info("b", 4, "training", 1, 9.0),
    )
    assert timeline.lanes["b"] == (
        Span(4, 1, "train", 2.0, 3.0, cut=True),
        Span(4, 1, "train", 9.0),
    )


def test_a_failed_training_is_cut() -> None:
    timeline = after(info("b", 4, "training", 1, 2.0), info("b", 4, "failed", 1, 4.0))
    assert timeline.lanes["b"] == (Span(4, 1, "train", 2.0, 4.0, cut=True),)


def test_the_next_round_and_the_end_close_what_is_open() -> None:
    begun = info("b", 4, "training", 1, 2.0)
    assert after(begun, opened(2, 6.0)).lanes["b"][0].end == 6.0
    assert after(begun, facts.Finished("finished", time=7.0)).lanes["b"][0].end == 7.0


def test_a_strip_is_bounded() -> None:
    many = [info("b", at, "trained", at, at + 1.0, seconds=1.0) for at in range(3 * SPANS)]
    assert len(after(*many).lanes["b"]) == SPANS
