from __future__ import annotations

from typing import Any

from fl_server.coordinator.refusals import REJECTED, Refusals


class Told:
    """Remembers the facts that were told."""

    def __init__(self) -> None:
        self.facts: list[dict[str, Any]] = []

    def __call__(self, kind: str, *, keep: bool = True, **fields: Any) -> None:
        self.facts.append({"event": kind, "keep": keep, **fields})


def make() -> tuple[Refusals, Told]:
    told = Told()
    return Refusals("fl", told, {0: "b1", 1: "b1", 2: "b2"}.get), told


def totals(told: Told) -> dict[str, int]:
    return {fact["board"]: fact["count"] for fact in told.facts if fact["event"] == "refused"}


def test_what_is_refused_is_counted_for_the_board_whose_topic_it_was() -> None:
    refusals, told = make()
    refusals.drop("fl/server/receive_info/0", 3, "nonsense: a")
    refusals.drop("fl/client/test_metrics/1", 3, "nonsense: b")
    refusals.drop("fl/client/connected/b2", 3, "nonsense")
    refusals.drop("fl/server/receive_info/77", 3, "nonsense")
    refusals.drop("elsewhere", 3, "nonsense")
    refusals.reject(2)
    refusals.conclude()
    assert totals(told) == {"b1": 2, "b2": 2, "client 77": 1, "others": 1}
    [b2] = [f for f in told.facts if f["event"] == "refused" and f["board"] == "b2"]
    assert b2["kinds"] == {"connected: nonsense": 1, REJECTED: 1}
    assert b2["keep"]


def test_counts_are_told_now_and_then_and_only_when_they_have_changed() -> None:
    refusals, told = make()
    refusals.reject(0)
    for now in (10.0, 11.0, 12.0, 16.0, 30.0):
        refusals.report(now)
    assert [(f["count"], f["keep"]) for f in told.facts] == [(1, False)]
    refusals.reject(0)
    refusals.report(40.0)
    assert [f["count"] for f in told.facts] == [1, 2]


def test_messages_that_the_link_did_not_take_are_counted_once() -> None:
    refusals, told = make()
    refusals.note_unheard({"fl/server/receive_info/2": 5})
    refusals.note_unheard({"fl/server/receive_info/2": 7, "": 1})
    refusals.conclude()
    assert totals(told) == {"b2": 7, "others": 1}


def test_a_board_that_complains_without_end_is_not_written_down_without_end() -> None:
    refusals, told = make()
    for round_number in range(1000):
        refusals.problem("b1", f"trouble {round_number}")
    refusals.problem("b2", "trouble")
    problems = [fact for fact in told.facts if fact["event"] == "problem"]
    assert 20 <= len(problems) < 30
    assert problems[-1]["board"] == "b2"
    refusals.conclude()
    assert totals(told)["b1"] > 900


def test_a_late_update_is_said_once() -> None:
    refusals, told = make()
    for _ in range(3):
        refusals.late(1, 4)
    assert [fact["text"] for fact in told.facts] == [
        "late update of client 1 rejected: round 4 is closed"
    ]
