"""The round machine: gathering, presence, a round from its opening to its close."""

from __future__ import annotations

import pytest

from common.values import replace
from common.wire.messages import (
    COORDINATOR,
    CurrentRound,
    Selected,
)
from fl_server.rounds import machine as rounds
from fl_server.rounds.publishing import CONFIRM_SECONDS
from fl_server.rounds.state import (
    Announce,
    Close,
    Closing,
    CountMetrics,
    Event,
    Gathering,
    Open,
    Publish,
    Received,
    Reconnected,
    Rejected,
    Report,
    SendWeights,
    Stored,
    Strayed,
    Tick,
    Working,
)
from tests.fl_server.rounds.round_machine import (
    POLICY,
    A,
    B,
    Machine,
    begun,
    board,
    gone,
    info,
    metrics,
    patient,
)

# gathering


def test_the_first_round_waits_for_all_participants_and_knows_who_is_missing() -> None:
    machine = Machine()
    assert rounds.missing(machine.policy, machine.state) == (0, 1, 2, 3)
    machine.hear(board("a", A))
    machine.wait(10_000.0)
    assert machine.is_in(Gathering)
    assert rounds.missing(machine.policy, machine.state) == (2, 3)
    machine.hear(board("b", B))
    assert rounds.missing(machine.policy, machine.state) == ()
    assert machine.of(Open) == [Open(1, (0, 1, 2, 3), (0, 1, 2, 3))]


def test_a_round_is_written_down_before_anything_of_it_is_said() -> None:
    machine = begun()
    kinds = [type(action) for action in machine.actions if not isinstance(action, Report)]
    assert kinds == [Open, Publish, Publish, SendWeights]
    assert machine.said == CurrentRound(
        run="run", round=1, incarnation=1, safe=(), measured=(), accepted={}
    )
    assert machine.of(Publish)[1].message == Selected(
        run="run", round=1, clients=(0, 1, 2, 3), testers=(0, 1, 2, 3)
    )


def test_the_first_round_starts_with_as_many_as_the_experiment_says() -> None:
    machine = Machine(patient(start_with=2))
    machine.hear(board("a", A))
    assert machine.of(Open) == [Open(1, (0, 1), (0, 1))]


def test_the_first_round_never_starts_with_fewer_than_it_needs_updates() -> None:
    machine = Machine(patient(start_with=1, min_updates=3))
    machine.hear(board("a", A))
    assert machine.is_in(Gathering)
    machine.hear(board("b", B))
    assert machine.working.selected == (0, 1, 2, 3)


def test_a_board_that_left_before_the_first_round_does_not_count() -> None:
    machine = Machine()
    machine.hear(board("a", A), gone("a", A), board("b", B))
    assert machine.is_in(Gathering)
    assert rounds.missing(machine.policy, machine.state) == (0, 1)


def test_while_gathering_a_reconnect_says_what_is_run() -> None:
    assert Machine().take(Reconnected(0.0)) == (Announce(),)


def test_clients_outside_the_experiment_are_noted_once_and_not_used() -> None:
    machine = Machine()
    machine.hear(board("a", (0, 1, 8, 9)))
    assert machine.notes["foreign"] == (
        "board a offers clients 8-9, which are not in this experiment: not used"
    )
    machine.hear(board("a", (0, 1, 8, 9)))
    assert machine.actions == ()
    machine.hear(board("b", B))
    assert machine.working.selected == (0, 1, 2, 3)


def test_unsettled_claims_and_other_coordinators_are_ignored() -> None:
    machine = Machine(patient(start_with=1))
    assert machine.hear(board("a", A, settled=False), board(COORDINATOR, A)) == ()
    assert machine.state.boards == {}


# presence


def test_the_end_of_an_older_session_does_not_make_a_newer_one_lost() -> None:
    machine = Machine()
    machine.hear(board("a", A, session=(2, 1)))
    assert machine.hear(gone("a", A, session=(1, 7))) == ()
    assert not machine.has_lost("a")
    machine.hear(gone("a", A, session=(2, 1)))
    assert machine.has_lost("a")
    assert machine.notes == {"lost": "board a is lost (clients 0-1)"}
    assert machine.hear(gone("a", A, session=(2, 1))) == ()


def test_an_older_session_does_not_bring_a_lost_board_back() -> None:
    machine = Machine()
    machine.hear(board("a", A, session=(1, 1)), gone("a", A, session=(1, 3)))
    assert machine.hear(board("a", A, session=(1, 2))) == ()
    assert machine.has_lost("a")
    machine.hear(board("a", A, session=(1, 4)))
    assert machine.notes == {"back": "board a is back"}


def test_the_end_of_a_board_that_was_never_there_means_nothing() -> None:
    machine = Machine()
    machine.hear(board("a", A))
    assert machine.hear(gone("b", B), gone("a", A, instance="another")) == ()
    assert not machine.has_lost("a")


def test_another_board_under_the_same_name_replaces_the_first() -> None:
    machine = Machine()
    machine.hear(board("a", A, session=(5, 5)))
    machine.hear(board("a", (0,), instance="another"))
    assert machine.state.boards["a"].clients == (0,)
    assert machine.state.owned == {0: "a"}


def test_a_client_stays_with_its_board_while_that_is_there() -> None:
    machine = Machine()
    machine.hear(board("a", A), board("b", (1, 2)))
    assert machine.state.owned == {0: "a", 1: "a", 2: "b"}
    machine.hear(gone("a", A), board("b", (1, 2)))
    assert machine.state.owned == {0: "a", 1: "b", 2: "b"}
    machine.hear(board("a", A, session=(1, 2)))
    assert machine.state.owned == {0: "a", 1: "b", 2: "b"}
    assert machine.state.boards["a"].clients == (0,)


def test_a_client_that_its_board_gives_up_goes_to_a_lost_one_that_had_it() -> None:
    machine = Machine()
    machine.hear(board("a", A), gone("a", A), board("b", (1, 2)), board("b", (2,)))
    assert machine.state.owned == {0: "a", 1: "a", 2: "b"}
    assert machine.state.registered(connected=True) == {2}


# a round


def test_a_round_closes_when_all_updates_are_safe_and_all_counts_are_there() -> None:
    machine = begun()
    machine.store(0, 1, 2, 3)
    machine.measure(0, 1, 2)
    assert machine.working.pending == {3}
    machine.measure(3)
    assert machine.of(Close) == [Close(1, (0, 1, 2, 3), (), training=True)]
    assert machine.state.phase == Closing(1, (0, 1, 2, 3))


def test_updates_and_counts_come_in_any_order() -> None:
    machine = begun()
    machine.measure(3, 2, 1, 0)
    machine.store(3, 1, 2)
    assert machine.is_in(Working)
    machine.store(0)
    assert machine.of(Close) == [Close(1, (0, 1, 2, 3), (), training=True)]


def test_each_client_is_counted_once() -> None:
    machine = begun()
    assert machine.measure(0) == (CountMetrics(metrics(0)),)
    assert machine.measure(0, 0) == ()
    machine.store(0, 0, 0)
    assert machine.working.safe == {0}
    assert machine.working.measured == {0}


def test_an_update_is_wanted_until_it_is_safe() -> None:
    machine = begun()

    def wants(run: str = "run", round_number: int = 1, client: int = 0) -> bool:
        return rounds.wants(
            POLICY, machine.state, run=run, round_number=round_number, client=client
        )

    assert wants()
    assert not wants(run="other")
    assert not wants(round_number=2)
    assert not wants(client=9)
    machine.store(0)
    assert not wants()
    machine.do_round(1)
    assert wants(round_number=2)


def test_nobody_is_wanted_between_rounds() -> None:
    machine = begun()
    machine.store(*A, *B)
    machine.measure(*A, *B)
    assert not rounds.wants(POLICY, machine.state, run="run", round_number=1, client=0)


def test_what_became_safe_is_confirmed_but_not_too_often() -> None:
    machine = begun()
    machine.wait(CONFIRM_SECONDS / 2)
    assert machine.store(0) == ()
    machine.wait(CONFIRM_SECONDS / 2)
    assert list(machine.said.safe) == [0]
    assert machine.store(1) == ()
    assert machine.measure(2) == (CountMetrics(metrics(2)),)
    assert machine.wait(CONFIRM_SECONDS * 3 / 4) == ()
    machine.wait(CONFIRM_SECONDS / 4)
    assert list(machine.said.safe) == [0, 1]
    assert machine.said.measured == (2,)


def test_a_confirmation_repeats_nothing_and_is_the_rarer_the_more_boards_read_it() -> None:
    machine = begun()
    many = {f"light-{at}": machine.state.boards["a"] for at in range(2000)}
    machine.state = replace(machine.state, boards={**machine.state.boards, **many})
    machine.store(0)
    assert machine.wait(1.9) == ()
    (confirmed,) = machine.wait(0.2)
    assert isinstance(confirmed, Publish)
    assert isinstance(confirmed.message, CurrentRound)


@pytest.mark.parametrize(
    "event",
    [
        Strayed(1.0),
        Stored(0, 7, 1.0),
        Stored(9, 1, 1.0),
        Rejected(0, 7, "late", 1.0),
        Received(metrics(0, round_number=7), 1.0),
        Received(metrics(9), 1.0),
        Received(info(0, "training", round=7), 1.0),
        Received(info(0, "training", run="other"), 1.0),
    ],
    ids=repr,
)
def test_what_is_late_or_foreign_changes_nothing_but_makes_us_say_where_we_are(
    event: Event,
) -> None:
    machine = begun()
    before = machine.working
    assert machine.take(event)
    assert machine.said.round == 1
    after = machine.working
    assert (after.safe, after.measured, after.failed) == (
        before.safe,
        before.measured,
        before.failed,
    )
    assert machine.take(event) == ()


def test_counts_of_another_run_are_ignored() -> None:
    machine = begun()
    before = machine.state
    assert machine.hear(metrics(1, run="other")) == ()
    assert machine.state == before


def test_between_rounds_late_words_change_nothing() -> None:
    machine = begun()
    machine.store(*A, *B)
    machine.measure(*A, *B)
    before = machine.state
    machine.take(Strayed(1.0), Stored(0, 1, 1.0), Rejected(0, 1, "late", 1.0), Tick(9.0))
    assert machine.actions == ()
    machine.hear(metrics(0), info(0, "training"))
    machine.aggregate(round_number=7)
    assert (machine.state, machine.actions) == (before, ())


def test_a_rejected_update_is_answered_and_does_not_block_the_round() -> None:
    machine = begun()
    machine.take(Rejected(3, 1, "not finite", 2.0))
    assert machine.notes == {"rejected": "update of client 3 in round 1 rejected: not finite"}
    assert machine.said.safe == (3,)
    machine.store(0, 1, 2)
    machine.measure(*A, *B)
    assert machine.of(Close) == [Close(1, (0, 1, 2), (), training=True)]
    machine.aggregate()
    assert machine.state.accepted == {0: 1, 1: 1, 2: 1}


def test_if_all_updates_are_rejected_the_round_closes_without_any() -> None:
    machine = begun()
    machine.measure(*A, *B)
    machine.take(*(Rejected(client, 1, "bad", 1.0) for client in (*A, *B)))
    assert machine.of(Close) == [Close(1, (), (), training=True)]
