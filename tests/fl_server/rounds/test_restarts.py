"""The round machine after a restart, and after boards fell silent."""

from __future__ import annotations

import math

from common.values import replace
from fl_server.rounds import machine as rounds
from fl_server.rounds.state import (
    Close,
    Gathering,
    Open,
    Reconnected,
    Tick,
    Working,
)
from fl_server.watch.facts.making import SILENCE_SECONDS
from tests.fl_server.rounds.round_machine import (
    A,
    B,
    Machine,
    begun,
    board,
    gone,
    patient,
    resumed,
)


def test_a_resumed_round_goes_on_without_what_is_safe() -> None:
    machine = resumed(safe=(0, 1, 2))
    machine.take(Reconnected(0.0))
    assert machine.said.incarnation == 2
    assert machine.said.safe == (0, 1, 2)
    machine.hear(board("a", A), board("b", B))
    machine.measure(*A, *B)
    machine.store(3)
    assert machine.of(Close) == [Close(1, (0, 1, 2, 3), (), training=True)]


def test_after_a_restart_clients_that_no_board_has_are_dropped_after_grace() -> None:
    machine = resumed(safe=(0, 1))
    machine.hear(board("a", A))
    machine.measure(*A)
    machine.wait(59.0)
    assert machine.is_in(Working)
    machine.wait(1.0)
    assert machine.of(Close) == [Close(1, (0, 1), (2, 3), training=True)]


def test_after_a_restart_the_next_round_waits_for_boards_that_were_not_met_yet() -> None:
    machine = resumed(patient(grace=float("inf")))
    machine.store(*A, *B)
    machine.measure(*A, *B)
    machine.hear(board("a", A))
    machine.aggregate()
    machine.wait(1000.0)
    assert machine.is_in(Gathering)
    machine.hear(board("b", B))
    assert machine.of(Open) == [Open(2, (0, 1, 2, 3), (0, 1, 2, 3))]


def test_after_a_restart_between_rounds_boards_are_waited_for_no_longer_than_grace() -> None:
    state = rounds.resume(
        incarnation=3, done=1, accepted={0: 1}, opened=None, safe=frozenset(), now=0.0
    )
    machine = Machine(state=state)
    machine.wait(60.0)
    assert machine.is_in(Gathering)  # never an empty round
    machine.hear(board("a", A))
    assert machine.working.selected == (0, 1)
    machine.do_round(2, A)
    assert machine.working.round_number == 3  # not waited for a second time


def test_after_a_restart_before_the_first_round_all_are_waited_for() -> None:
    state = rounds.resume(
        incarnation=2, done=0, accepted={}, opened=None, safe=frozenset(), now=0.0
    )
    machine = Machine(state=state)
    machine.hear(board("a", A))
    machine.wait(1e6)
    assert machine.is_in(Gathering)


def test_a_board_lost_between_rounds_is_selected_all_the_same() -> None:
    machine = begun()
    machine.store(*A, *B)
    machine.measure(*A, *B)
    machine.hear(gone("b", B))
    machine.aggregate()
    assert machine.working.selected == (0, 1, 2, 3)


def test_a_board_whose_will_died_with_the_broker_is_lost_by_its_silence() -> None:
    machine = begun()
    machine.now += SILENCE_SECONDS
    machine.hear(board("b", B))
    machine.take(Tick(machine.now))
    assert machine.notes == {"lost": "board a is lost (clients 0-1): nothing received for 60 s"}
    assert machine.state.boards["b"].lost_at is None


def test_any_word_of_a_silent_board_brings_it_back() -> None:
    machine = begun()
    machine.now += SILENCE_SECONDS
    machine.take(Tick(machine.now))
    assert machine.state.registered(connected=True) == frozenset()
    machine.measure(A[0])
    assert machine.state.registered(connected=True) == frozenset(A)


def test_after_our_own_absence_nobodys_silence_counts() -> None:
    machine = begun()
    machine.now += 10 * SILENCE_SECONDS
    machine.take(Reconnected(machine.now), Tick(machine.now))
    assert machine.state.registered(connected=True) == frozenset((*A, *B))


def test_a_round_that_only_waits_for_lost_boards_says_for_whom_once() -> None:
    machine = begun(patient(grace=math.inf))
    machine.hear(gone("b", B))
    assert "waiting" not in machine.notes, "board a still has work to do"
    machine.store(*A)
    machine.measure(*A)
    assert "waiting" not in machine.notes, "it may be back in a moment"
    machine.wait(5.0)
    assert machine.notes["waiting"] == ("round 1 waits for clients 2-3, whose boards are lost")
    machine.wait(5.0)
    assert "waiting" not in machine.notes


def test_only_an_update_that_a_closed_round_went_without_was_missed() -> None:
    machine = begun()
    machine.do_round(1)
    state = replace(machine.state, accepted={0: 1})
    places = {
        "late": ("run", 1, 1),
        "used": ("run", 1, 0),
        "now": ("run", 2, 1),
        "other": ("x", 1, 1),
    }
    found = {
        name: rounds.missed(
            machine.policy, state, run=run, round_number=round_number, client=client
        )
        for name, (run, round_number, client) in places.items()
    }
    assert found == {"late": True, "used": False, "now": False, "other": False}
