"""The round machine: every arrow and every rule, by example."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import TypeVar

import msgspec
import pytest

from common.messages import (
    COORDINATOR,
    PROTOCOL,
    ClientMetrics,
    Connected,
    Count,
    CurrentRound,
    Info,
    Selected,
    TrainEnd,
)
from fl_server import rounds
from fl_server.roll import SILENCE_SECONDS, all_present
from fl_server.round_state import (
    Action,
    Aggregated,
    Announce,
    Close,
    Closing,
    Event,
    Finish,
    Finished,
    Gathering,
    Heard,
    Note,
    Open,
    Phase,
    Policy,
    Publish,
    Reconnected,
    Rejected,
    SendWeights,
    State,
    Stored,
    Strayed,
    Tell,
    Tick,
    Working,
)
from fl_server.rounds import CONFIRM_SECONDS

POLICY = Policy(
    run="run", seed=1, rounds=2, participants=(0, 1, 2, 3), start_with=4, grace=60.0
)
A, B = (0, 1), (2, 3)  # the clients of boards a and b
Kind = TypeVar("Kind", bound=Action)


class Machine:
    """A machine on its way, with the actions of its last step."""

    def __init__(self, policy: Policy = POLICY, state: State | None = None) -> None:
        self.policy = policy
        self.now = 0.0
        self.state = state or rounds.start(incarnation=1, now=self.now)
        self.actions: tuple[Action, ...] = ()

    def take(self, *events: Event) -> tuple[Action, ...]:
        self.actions = ()
        for event in events:
            self.state, actions = rounds.step(self.policy, self.state, event)
            self.actions += actions
        return self.actions

    def hear(self, *messages: Connected | Info | ClientMetrics) -> tuple[Action, ...]:
        return self.take(*(Heard(message, self.now) for message in messages))

    def store(self, *clients: int, number: int = 1) -> tuple[Action, ...]:
        return self.take(*(Stored(client, number, self.now) for client in clients))

    def measure(self, *clients: int, number: int = 1) -> tuple[Action, ...]:
        return self.hear(*(metrics(client, number) for client in clients))

    def wait(self, seconds: float) -> tuple[Action, ...]:
        """Time passes, and boards that are there repeat that they are."""
        self.now += seconds
        self.state = all_present(self.state, self.now)
        return self.take(Tick(self.now))

    def aggregate(self, number: int = 1) -> tuple[Action, ...]:
        return self.take(Aggregated(number, self.now))

    def do_round(self, number: int, clients: Iterable[int] = (0, 1, 2, 3)) -> None:
        self.store(*clients, number=number)
        self.measure(*clients, number=number)
        self.aggregate(number)

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [action for action in self.actions if isinstance(action, kind)]

    def has_lost(self, name: str) -> bool:
        return self.state.boards[name].lost_at is not None

    def is_in(self, phase: type[Phase]) -> bool:
        return isinstance(self.state.phase, phase)

    @property
    def working(self) -> Working:
        assert isinstance(self.state.phase, Working)
        return self.state.phase

    @property
    def said(self) -> CurrentRound:
        """The one current_round that was said."""
        found = [p.message for p in self.of(Publish) if isinstance(p.message, CurrentRound)]
        assert len(found) == 1
        return found[0]

    @property
    def notes(self) -> dict[str, str]:
        return {note.kind: note.text for note in self.of(Note)}


def board(name: str, clients: tuple[int, ...], **changes: object) -> Connected:
    claim = Connected(
        protocol=PROTOCOL,
        version="1",
        board=name,
        instance=f"instance of {name}",
        session=(1, 1),
        connected=True,
        settled=True,
        since=0.0,
        clients=clients,
        host="somewhere",
    )
    return msgspec.structs.replace(claim, **changes)


def gone(name: str, clients: tuple[int, ...], **changes: object) -> Connected:
    return board(name, clients, connected=False, **changes)


def metrics(client: int, number: int = 1, run: str = "run") -> ClientMetrics:
    counts = {"G": Count(correct=client, total=10)}
    return msgspec.convert(
        {"run": run, "round": number, "client": client, "counts": counts}, ClientMetrics
    )


def info(client: int, state: str, name: str = "a", **changes: object) -> Info:
    fields = {"run": "run", "round": 1, "client": client, "board": name, "state": state}
    return msgspec.convert({**fields, **changes}, Info)


def begun(policy: Policy = POLICY) -> Machine:
    """Both boards are there and round 1 is open."""
    machine = Machine(policy)
    machine.hear(board("a", A), board("b", B))
    return machine


def patient(**changes: float) -> Policy:
    return dataclasses.replace(POLICY, **changes)  # type: ignore[arg-type] # ints are floats


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
    kinds = [type(action) for action in machine.actions if not isinstance(action, Note)]
    assert kinds == [Open, Announce, SendWeights, Publish, Publish]
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
    assert machine.measure(0) == (Tell(metrics(0)),)
    assert machine.measure(0, 0) == ()
    machine.store(0, 0, 0)
    assert machine.working.safe == {0}
    assert machine.working.measured == {0}


def test_an_update_is_wanted_until_it_is_safe() -> None:
    machine = begun()

    def wants(run: str = "run", number: int = 1, client: int = 0) -> bool:
        return rounds.wants(POLICY, machine.state, run=run, number=number, client=client)

    assert wants()
    assert not wants(run="other")
    assert not wants(number=2)
    assert not wants(client=9)
    machine.store(0)
    assert not wants()
    machine.do_round(1)
    assert wants(number=2)


def test_nobody_is_wanted_between_rounds() -> None:
    machine = begun()
    machine.store(*A, *B)
    machine.measure(*A, *B)
    assert not rounds.wants(POLICY, machine.state, run="run", number=1, client=0)


def test_what_became_safe_is_confirmed_but_not_too_often() -> None:
    machine = begun()
    machine.wait(CONFIRM_SECONDS / 2)
    assert machine.store(0) == ()
    machine.wait(CONFIRM_SECONDS / 2)
    assert list(machine.said.safe) == [0]
    assert machine.store(1) == ()
    assert machine.measure(2) == (Tell(metrics(2)),)
    assert machine.wait(CONFIRM_SECONDS * 3 / 4) == ()
    machine.wait(CONFIRM_SECONDS / 4)
    assert list(machine.said.safe) == [0, 1]
    assert machine.said.measured == (2,)


@pytest.mark.parametrize(
    "event",
    [
        Strayed(1.0),
        Stored(0, 7, 1.0),
        Stored(9, 1, 1.0),
        Rejected(0, 7, "late", 1.0),
        Heard(metrics(0, number=7), 1.0),
        Heard(metrics(9), 1.0),
        Heard(info(0, "training", round=7), 1.0),
        Heard(info(0, "training", run="other"), 1.0),
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
    machine.aggregate(number=7)
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


# grace, deadline, min_updates


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


# saying things again


def test_missing_weights_are_sent_again_but_not_too_often() -> None:
    machine = begun()
    machine.now = 2.9
    assert machine.hear(info(0, "missing"), info(2, "missing", name="b")) == ()
    machine.now = 3.0
    assert machine.hear(info(0, "missing"), info(2, "missing", name="b")) == (SendWeights(1),)
    machine.now = 6.0
    assert machine.hear(info(0, "missing")) == (SendWeights(1),)


def test_a_board_that_is_not_known_yet_gets_its_weights_too() -> None:
    machine = resumed()
    machine.now = 5.0
    assert SendWeights(1) in machine.hear(info(0, "missing"))


def test_a_reconnect_says_everything_again() -> None:
    machine = begun()
    machine.store(0)
    machine.take(Reconnected(0.1))
    kinds = [type(action) for action in machine.actions]
    assert kinds == [Announce, SendWeights, Publish, Publish]
    assert machine.said.safe == (0,)


def test_to_silent_boards_everything_is_said_again_and_again_backing_off() -> None:
    machine = begun()
    said = [machine.now for _ in range(130) if Announce() in machine.wait(1.0)]
    assert said == [3.0, 9.0, 21.0, 45.0, 75.0, 105.0]


def test_to_boards_that_gave_a_sign_it_is_said_now_and_then() -> None:
    machine = begun()
    machine.hear(info(0, "training"), info(2, "training", name="b"))
    said = [machine.now for _ in range(100) if Announce() in machine.wait(1.0)]
    assert said == [30.0, 60.0, 90.0]


def test_confirmations_do_not_put_the_repetition_off() -> None:
    machine = begun()
    said = []
    for _ in range(10):
        machine.take(Strayed(machine.now))
        if Announce() in machine.wait(1.0):
            said.append(machine.now)
    assert said == [3.0, 9.0]


def test_a_board_that_restarts_is_told_soon() -> None:
    machine = begun()
    machine.hear(info(0, "training"), info(2, "training", name="b"))
    machine.wait(10.0)
    machine.hear(board("a", A, session=(2, 1)))
    assert Announce() in machine.actions


# the end


def test_rounds_follow_each_other_and_after_the_last_everybody_tests() -> None:
    machine = begun()
    machine.do_round(1)
    assert machine.of(Open) == [Open(2, (0, 1, 2, 3), (0, 1, 2, 3))]
    assert machine.said.accepted == dict.fromkeys((0, 1, 2, 3), 1)
    machine.do_round(2)
    assert machine.of(Open) == [Open(3, (), (0, 1, 2, 3))]
    machine.measure(*A, *B, number=3)
    assert machine.of(Close) == [Close(3, (), (), training=False)]
    machine.aggregate(3)
    assert machine.actions == (
        Finish("finished"),
        Publish(TrainEnd(run="run", reason="finished")),
    )
    assert machine.state.phase == Finished("finished")
    assert machine.state.done == 2


def test_a_finished_run_stays_finished_and_says_so_on_every_connection() -> None:
    state = State(Finished("finished"))
    machine = Machine(state=state)
    machine.hear(board("a", A), metrics(0), info(0, "missing"))
    machine.store(0)
    machine.aggregate(3)
    machine.wait(1e6)
    assert machine.state.phase == Finished("finished")
    end = Publish(TrainEnd(run="run", reason="finished"))
    assert machine.take(Reconnected(1.0)) == (end,)


def test_clients_test_after_every_nth_round_and_after_the_last() -> None:
    machine = begun(patient(rounds=3, evaluate_every=2))
    testers = [machine.working.testers]
    for number in (1, 2, 3):
        machine.store(*A, *B, number=number)
        machine.measure(*machine.working.testers if number % 2 else (), number=number)
        machine.aggregate(number)
        testers.append(machine.working.testers)
    everybody = (0, 1, 2, 3)
    assert testers == [everybody, (), everybody, everybody]


# restarts


def resumed(policy: Policy = POLICY, safe: Iterable[int] = (), done: int = 0) -> Machine:
    """A coordinator that was killed in a round."""
    opened = Open(done + 1, (0, 1, 2, 3), (0, 1, 2, 3))
    state = rounds.resume(
        incarnation=2,
        done=done,
        accepted={},
        opened=opened,
        safe=frozenset(safe),
        now=0.0,
    )
    return Machine(policy, state)


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
    assert machine.working.number == 3  # not waited for a second time


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
    assert machine.notes == {"lost": "board a is lost (clients 0-1)"}
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
    state = dataclasses.replace(machine.state, accepted={0: 1})
    places = {
        "late": ("run", 1, 1),
        "used": ("run", 1, 0),
        "now": ("run", 2, 1),
        "other": ("x", 1, 1),
    }
    found = {
        name: rounds.missed(machine.policy, state, run=run, number=number, client=client)
        for name, (run, number, client) in places.items()
    }
    assert found == {"late": True, "used": False, "now": False, "other": False}
