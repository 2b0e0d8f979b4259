"""Over-selection: more clients are selected than count, and the first updates do."""

from __future__ import annotations

from common.wire.messages import Selected
from fl_server.rounds import machine as rounds
from fl_server.rounds.state import Close, Policy, Publish, Rejected, Working
from tests.fl_server.rounds.round_machine import begun, patient

TWO_OF_THREE = patient(rate=0.5, extra=1, evaluate_every=9)


def picked(policy: Policy = TWO_OF_THREE) -> tuple[int, ...]:
    machine = begun(policy)
    machine.measure(0, 1, 2, 3)
    return machine.working.selected


def test_so_many_more_are_selected() -> None:
    assert len(picked()) == 3
    assert len(picked(patient(rate=0.5, extra=9))) == 4


def test_the_first_updates_count_and_the_others_are_dropped_by_name() -> None:
    machine = begun(TWO_OF_THREE)
    machine.measure(0, 1, 2, 3)
    first, last, second = machine.working.selected
    machine.store(second)
    assert machine.is_in(Working)
    machine.store(first)
    used = tuple(sorted((first, second)))
    assert machine.of(Close) == [Close(1, used, (last,), training=True)]
    text = f"round 1 has enough updates: clients {last} do not count"
    assert machine.notes == {"dropped": text}


def test_while_tests_are_awaited_others_need_not_train_on() -> None:
    machine = begun(TWO_OF_THREE)
    first, second, last = machine.working.selected
    machine.store(first, second)
    assert machine.working.pending == {0, 1, 2, 3}  # tests only
    (told,) = [p.message for p in machine.of(Publish) if isinstance(p.message, Selected)]
    assert told.clients == (first, second)
    policy, state = machine.policy, machine.state
    assert not rounds.wants(policy, state, run="run", round_number=1, client=last)
    assert rounds.missed(policy, state, run="run", round_number=1, client=last)
    machine.store(last)
    machine.measure(0, 1, 2, 3)
    assert machine.of(Close) == [Close(1, (first, second), (last,), training=True)]


def test_a_rejected_update_makes_room_for_a_spare_one() -> None:
    machine = begun(TWO_OF_THREE)
    machine.measure(0, 1, 2, 3)
    first, second, last = machine.working.selected
    machine.take(Rejected(first, 1, "not finite", machine.now))
    machine.store(second, last)
    assert machine.of(Close)[0].used == (second, last)


def test_if_too_few_come_in_time_the_round_has_those() -> None:
    machine = begun(patient(rate=0.5, extra=1, evaluate_every=9, deadline=10.0))
    machine.measure(0, 1, 2, 3)
    first, *others = machine.working.selected
    machine.store(first)
    machine.wait(10.0)
    assert machine.of(Close) == [Close(1, (first,), tuple(others), training=True)]
