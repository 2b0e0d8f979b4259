from __future__ import annotations

from typing import TypeVar

from fl_server.coordinator.refusals import REJECTED, Refusals
from fl_server.watch import facts
from fl_server.watch.facts.making import is_kept

K = TypeVar("K")


class Reported(list[facts.Fact]):
    """The facts that were reported."""

    def of(self, kind: type[K]) -> list[K]:
        return [fact for fact in self if isinstance(fact, kind)]


def make() -> tuple[Refusals, Reported]:
    reported = Reported()
    return Refusals("fl", reported.append, {0: "b1", 1: "b1", 2: "b2"}.get), reported


def totals(reported: Reported) -> dict[str, int]:
    return {fact.board: fact.count for fact in reported.of(facts.Refused)}


def test_what_is_refused_is_counted_for_the_board_whose_topic_it_was() -> None:
    refusals, reported = make()
    refusals.drop("fl/server/receive_info/0", 3, "nonsense: a")
    refusals.drop("fl/client/test_metrics/1", 3, "nonsense: b")
    refusals.drop("fl/client/connected/b2", 3, "nonsense")
    refusals.drop("fl/server/receive_info/77", 3, "nonsense")
    refusals.drop("elsewhere", 3, "nonsense")
    refusals.reject(2)
    refusals.conclude()
    assert totals(reported) == {"b1": 2, "b2": 2, "client 77": 1, "others": 1}
    [b2] = [fact for fact in reported.of(facts.Refused) if fact.board == "b2"]
    assert b2.kinds == {"connected: nonsense": 1, REJECTED: 1}
    assert is_kept(b2)


def test_counts_are_shown_now_and_then_and_only_when_they_have_changed() -> None:
    refusals, reported = make()
    refusals.reject(0)
    for now in (10.0, 11.0, 12.0, 16.0, 30.0):
        refusals.report(now)
    assert [(f.count, is_kept(f)) for f in reported.of(facts.RefusedSoFar)] == [(1, False)]
    refusals.reject(0)
    refusals.report(40.0)
    assert [fact.count for fact in reported.of(facts.RefusedSoFar)] == [1, 2]


def test_messages_that_the_link_did_not_take_are_counted_once() -> None:
    refusals, reported = make()
    refusals.note_unread({"fl/server/receive_info/2": 5})
    refusals.note_unread({"fl/server/receive_info/2": 7, "": 1})
    refusals.conclude()
    assert totals(reported) == {"b2": 7, "others": 1}


def test_a_board_that_complains_without_end_is_not_written_down_without_end() -> None:
    refusals, reported = make()
    for round_number in range(1000):
        refusals.problem("b1", f"trouble {round_number}")
    refusals.problem("b2", "trouble")
    problems = reported.of(facts.Problem)
    assert 20 <= len(problems) < 30
    assert problems[-1].board == "b2"
    refusals.conclude()
    assert totals(reported)["b1"] > 900


def test_a_late_update_is_reported_once() -> None:
    refusals, reported = make()
    for _ in range(3):
        refusals.late(1, 4)
    assert [fact.text for fact in reported.of(facts.Late)] == [
        "late update of client 1 rejected: round 4 is closed"
    ]
