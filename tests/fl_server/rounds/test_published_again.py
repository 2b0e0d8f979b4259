"""The round machine: what it says again, and how a run ends."""

from __future__ import annotations

from common.wire.messages import (
    TrainEnd,
)
from fl_server.rounds.state import (
    Announce,
    Close,
    Finish,
    Finished,
    Open,
    Publish,
    Reconnected,
    SendWeights,
    State,
    Strayed,
)
from tests.fl_server.rounds.round_machine import (
    A,
    B,
    Machine,
    begun,
    board,
    info,
    metrics,
    patient,
    resumed,
)

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
    assert kinds == [Announce, Publish, Publish, SendWeights]
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
    machine.measure(*A, *B, round_number=3)
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
    for round_number in (1, 2, 3):
        machine.store(*A, *B, round_number=round_number)
        machine.measure(
            *machine.working.testers if round_number % 2 else (), round_number=round_number
        )
        machine.aggregate(round_number)
        testers.append(machine.working.testers)
    everybody = (0, 1, 2, 3)
    assert testers == [everybody, (), everybody, everybody]
