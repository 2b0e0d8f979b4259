"""The round machine: whom it waits for, and for how long."""

from __future__ import annotations

from fl_server.rounds.state import (
    Close,
    Open,
    Working,
)
from tests.fl_server.rounds.round_machine import (
    A,
    B,
    begun,
    board,
    gone,
    info,
    patient,
)


def test_a_lost_board_is_waited_for_and_then_dropped_by_name() -> None:
    machine = begun()
    machine.store(*A)
    machine.measure(*A)
    machine.hear(gone("b", B))
    machine.wait(59.9)
    assert machine.is_in(Working)
    machine.wait(0.1)
    assert machine.notes == {
        "dropped": "round 1 goes on without clients 2-3",
        "uncounted": "round 1 has no counts of clients 2-3",
    }
    assert machine.of(Close) == [Close(1, (0, 1), (2, 3), training=True)]
    machine.aggregate()
    assert machine.working.selected == (0, 1)
    assert machine.said.accepted == {0: 1, 1: 1}


def test_a_board_that_comes_back_in_time_is_not_dropped() -> None:
    machine = begun()
    machine.store(*A)
    machine.measure(*A)
    machine.hear(gone("b", B))
    machine.wait(59.0)
    machine.hear(board("b", B, session=(2, 1)))
    machine.wait(1000.0)
    assert machine.is_in(Working)
    machine.store(*B)
    machine.measure(*B)
    assert machine.of(Close) == [Close(1, (0, 1, 2, 3), (), training=True)]


def test_a_dropped_board_joins_the_next_round_when_it_is_back() -> None:
    machine = begun()
    machine.store(*A)
    machine.measure(*A)
    machine.hear(gone("b", B))
    machine.wait(60.0)
    machine.hear(board("b", B, session=(2, 1)))
    machine.aggregate()
    assert machine.working.selected == (0, 1, 2, 3)


def test_with_grace_for_ever_a_lost_board_is_never_dropped() -> None:
    machine = begun(patient(grace=float("inf")))
    machine.store(*A)
    machine.measure(*A)
    machine.hear(gone("b", B))
    machine.wait(1e9)
    assert machine.is_in(Working)


def test_a_round_is_never_empty() -> None:
    machine = begun()
    machine.hear(gone("a", A), gone("b", B))
    machine.wait(1e6)
    assert machine.is_in(Working)
    machine.hear(board("b", B, session=(2, 1)))
    machine.store(2)
    machine.wait(1.0)
    assert machine.is_in(Working)  # client 3 may still come
    machine.store(3)
    machine.measure(*B)
    assert machine.of(Close) == [Close(1, (2, 3), (0, 1), training=True)]


def test_after_the_deadline_stragglers_are_not_waited_for() -> None:
    machine = begun(patient(deadline=30.0))
    machine.store(0)
    machine.measure(*A, *B)
    machine.wait(29.0)
    assert machine.is_in(Working)
    machine.wait(1.0)
    assert machine.of(Close) == [Close(1, (0,), (1, 2, 3), training=True)]


def test_a_round_never_closes_with_fewer_than_min_updates() -> None:
    machine = begun(patient(deadline=30.0, min_updates=2))
    machine.store(0)
    machine.wait(1e6)
    assert machine.is_in(Working)
    machine.store(3)
    assert machine.of(Close) == [Close(1, (0, 3), (1, 2), training=True)]


def test_others_train_instead_when_all_selected_clients_are_given_up() -> None:
    machine = begun(patient(rate=0.25))
    (chosen,) = machine.working.selected
    name, mine, others = ("a", A, B) if chosen in A else ("b", B, A)
    machine.measure(*A, *B)
    machine.hear(gone(name, mine))
    machine.wait(60.0)
    (opened,) = machine.of(Open)
    (instead,) = set(opened.selected) - {chosen}
    assert instead in others
    assert machine.notes == {
        "called": f"round 1 lacks updates: clients {instead} train instead"
    }
    assert machine.said.measured == (0, 1, 2, 3)
    machine.store(instead)
    assert machine.of(Close) == [Close(1, (instead,), (chosen,), training=True)]


def test_a_round_opens_with_lost_clients_if_the_others_are_too_few() -> None:
    machine = begun(patient(min_updates=3, deadline=100.0))
    machine.hear(gone("b", B))
    machine.store(0, 1, 2)
    machine.measure(*A)
    machine.wait(100.0)
    assert machine.of(Close) == [Close(1, (0, 1, 2), (3,), training=True)]
    machine.aggregate()
    assert machine.working.selected == (0, 1, 2, 3)


def test_a_client_that_fails_for_longer_than_grace_is_dropped() -> None:
    machine = begun()
    machine.store(0, 2, 3)
    machine.measure(*A, *B)
    machine.hear(info(1, "failed", problem="out of memory"))
    assert machine.notes == {"failed": "client 1 on board a failed: out of memory"}
    machine.wait(50.0)
    machine.hear(info(1, "training"), info(1, "failed", problem="out of memory"))
    assert machine.is_in(Working)
    machine.wait(10.0)
    assert machine.of(Close) == [Close(1, (0, 2, 3), (1,), training=True)]


def test_a_client_that_succeeds_after_a_failure_is_waited_for() -> None:
    machine = begun()
    machine.store(0, 2, 3)
    machine.measure(*A, *B)
    machine.hear(info(1, "failed", problem="no"), info(1, "trained"))
    machine.wait(1000.0)
    assert machine.is_in(Working)


def test_only_the_board_of_a_client_may_say_that_it_failed() -> None:
    machine = begun()
    assert machine.hear(info(1, "failed", name="b", problem="no")) == ()
    assert machine.working.failed == {}
