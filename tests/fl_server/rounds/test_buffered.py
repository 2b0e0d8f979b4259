"""The round machine with a buffer (FedBuff): who trains what, and when a model is made."""

from __future__ import annotations

import dataclasses

from common.values import replace
from common.wire.messages import Selected
from fl_server.rounds import machine as rounds
from fl_server.rounds.state import Close, Open, Policy, Publish, Rejected, SendWeights, Working
from tests.fl_server.rounds.round_machine import (
    POLICY,
    A,
    B,
    Machine,
    board,
    gone,
    info,
    resumed,
)

TWO = dataclasses.replace(POLICY, rounds=9, buffer=2, max_staleness=2, evaluate_every=9)


def begun(policy: Policy = TWO, workers: int = 2) -> Machine:
    """Two boards with two clients each; the first model is tested."""
    machine = Machine(policy)
    machine.hear(board("a", A, workers=workers), board("b", B, workers=workers))
    machine.measure(0, 1, 2, 3)
    return machine


def told(machine: Machine) -> Selected:
    return [p.message for p in machine.of(Publish) if isinstance(p.message, Selected)][-1]


def test_as_many_updates_as_the_buffer_holds_make_a_model_and_the_others_go_on() -> None:
    machine = begun()
    machine.store(0)
    machine.store(3)
    started = {0: 1, 3: 1}
    assert machine.of(Close) == [Close(1, (0, 3), (), training=True, started=started)]
    machine.aggregate()
    assert machine.working.selected == (0, 1, 2, 3)
    assert told(machine).started == {1: 1, 2: 1}
    assert machine.of(SendWeights) == [SendWeights(2)]
    assert machine.said.accepted == {0: 1, 3: 1}


def test_an_update_names_the_model_that_it_started_from() -> None:
    machine = begun()
    machine.store(0, 3)
    machine.aggregate()
    machine.store(1, round_number=2)  # it trains round 1's
    assert machine.working.safe == frozenset()
    machine.store(1, round_number=1)
    machine.store(0, round_number=2)
    started = {0: 2, 1: 1}
    assert machine.of(Close) == [Close(2, (0, 1), (), training=True, started=started)]
    machine.aggregate(2)
    assert machine.said.accepted == {0: 2, 1: 1, 3: 1}


def test_who_trains_a_model_that_is_too_old_is_dropped_by_name_and_starts_again() -> None:
    machine = begun()
    for round_number in (1, 2, 3):
        machine.store(0, 3, round_number=round_number)
        machine.aggregate(round_number)
    assert machine.notes["dropped"] == "round 4: clients 1-2 train models that are too old"
    assert told(machine).started == {}
    assert not rounds.wants(machine.policy, machine.state, run="run", round_number=1, client=1)
    machine.store(0, 2, round_number=4)
    assert machine.of(Close)[0].dropped == (1,)


def test_a_board_gets_no_more_than_it_can_train_side_by_side() -> None:
    machine = begun(workers=1)
    first, second = machine.working.selected
    assert (first in A, second in B) == (True, True)
    machine.store(first)
    (opened,) = machine.of(Open)
    assert opened.started == dict.fromkeys(opened.selected, 1)
    assert set(opened.selected) == {*A, second}
    assert machine.of(SendWeights) == []


def test_as_many_train_at_any_time_as_the_rate_says() -> None:
    machine = begun(dataclasses.replace(TWO, rate=0.5))
    assert len(machine.working.untrained) == 2
    machine.store(machine.working.selected[0])
    assert len(machine.working.untrained) == 2
    assert len(machine.working.selected) == 3


def test_a_client_is_in_a_buffer_once_and_trains_a_model_once() -> None:
    machine = begun(dataclasses.replace(TWO, buffer=4))
    machine.store(0, 0, 1, 2)
    assert machine.working.safe == {0, 1, 2}
    assert machine.working.untrained == {3}
    assert machine.store(3)[-1] == Close(
        1, (0, 1, 2, 3), (), training=True, started=dict.fromkeys(range(4), 1)
    )


def test_those_test_who_do_not_train_and_train_afterwards() -> None:
    machine = begun(dataclasses.replace(TWO, evaluate_every=1), workers=1)
    first, second = machine.working.selected
    machine.store(first)
    (other,) = set(A) - {first}
    machine.store(other)  # both of board a; b trains on
    machine.aggregate()
    assert machine.working.testers == A
    assert machine.working.selected == (second,)
    machine.measure(*A, round_number=2)
    assert len(set(machine.working.selected) & set(A)) == 1


def test_a_lost_client_makes_room_after_grace_and_may_come_back() -> None:
    machine = begun(dataclasses.replace(TWO, rate=0.5), workers=1)
    one, other = machine.working.selected
    machine.hear(gone("b", B))
    machine.wait(60.0)
    assert machine.notes["dropped"] == f"round 1 goes on without clients {other}"
    assert machine.working.untrained == {one}
    machine.hear(board("b", B, session=(2, 1), workers=1))
    assert len(machine.working.untrained) == 2


def test_fewer_make_a_model_if_there_is_nobody_else() -> None:
    machine = begun(dataclasses.replace(TWO, buffer=3))
    machine.hear(gone("b", B))
    machine.store(*A)
    assert machine.is_in(Working)
    machine.wait(60.0)
    assert machine.of(Close)[0].used == A


def test_rejected_updates_do_not_fill_a_buffer_and_do_not_stop_a_run() -> None:
    machine = begun()
    for client in (0, 1, 2, 3):
        machine.take(Rejected(client, 1, "not finite", machine.now))
    assert machine.of(Close)[0].used == ()


def test_a_client_that_has_lost_its_older_model_starts_from_the_newest() -> None:
    machine = begun()
    machine.store(0, 3)
    machine.aggregate()
    machine.hear(info(1, "missing"))
    assert machine.working.started == {0: 2, 1: 2, 2: 1, 3: 2}
    assert machine.of(Open)[0].started[1] == 2
    assert told(machine).started == {2: 1}
    assert "starts again" in machine.notes["called"]
    assert machine.hear(info(1, "missing")) == ()


def test_after_a_crash_who_trained_goes_on() -> None:
    machine = resumed(TWO, safe=(2,), done=3)
    phase = replace(machine.working, started={0: 2, 1: 4, 2: 3, 3: 4})
    machine.state = replace(machine.state, phase=phase)
    machine.hear(board("a", A, workers=2), board("b", B, workers=2))
    machine.measure(0, 1, 2, 3, round_number=4)
    machine.store(0, round_number=2)
    assert machine.of(Close)[0].started == {0: 2, 2: 3}


def test_the_last_round_is_for_tests_only() -> None:
    machine = begun(dataclasses.replace(TWO, rounds=1))
    machine.store(0, 1)
    machine.aggregate()
    assert (machine.working.selected, machine.working.testers) == ((), (0, 1, 2, 3))
