"""The agent: runs that begin, end and follow each other."""

from __future__ import annotations

import msgspec
import pytest

from common.wire.messages import (
    Info,
    TrainEnd,
)
from fl_client.agent.state import (
    CloseRun,
    Opened,
    OpenFailed,
    OpenRun,
    Publish,
)
from tests.fl_client.agent.agent_machine import (
    Machine,
    current,
    detail,
    selected,
    train,
    working,
)


def test_a_run_is_opened_once_and_again_after_a_failure() -> None:
    machine = Machine()
    assert machine.receive(detail()) == (OpenRun(detail()),)
    assert machine.receive(detail(), detail()) == ()
    machine.take(OpenFailed("run", machine.now))
    assert machine.wait(4.9) == ()
    assert machine.wait(0.1) == (OpenRun(detail()),)
    assert machine.take(OpenFailed("other", machine.now)) == ()


def test_the_end_closes_the_run() -> None:
    machine = working()
    assert machine.receive(TrainEnd(run="run", reason="finished")) == (CloseRun("run"),)
    assert machine.state.work is None
    assert machine.receive(detail(), current(2), selected(2)) == ()


def test_the_end_of_another_run_changes_nothing() -> None:
    machine = working()
    assert machine.receive(TrainEnd(run="old", reason="finished")) == ()
    assert machine.work.jobs == {train(0)}


def test_a_board_that_comes_after_the_end_starts_nothing() -> None:
    machine = Machine()
    machine.receive(TrainEnd(run="run", reason="finished"), detail(), current(), selected())
    machine.download()
    assert machine.wait(100.0) == ()


def test_all_runs_that_have_ended_are_remembered() -> None:
    machine = Machine()
    machine.receive(*(TrainEnd(run=run, reason="finished") for run in ("one", "two")))
    assert machine.receive(detail("one")) == ()
    assert machine.receive(detail("two")) == ()
    assert machine.receive(detail("three")) == (OpenRun(detail("three")),)


def test_a_new_run_closes_the_old_one() -> None:
    machine = working()
    assert machine.receive(detail("next")) == (CloseRun("run"), OpenRun(detail("next")))
    machine.train(train(0))
    assert machine.actions == ()
    machine.open("next")
    machine.receive(current(run="next"), selected(run="next"))
    machine.download(run="next")
    assert machine.started == [("train", 0, None)]


def test_a_run_that_is_resumed_with_other_code_is_opened_again() -> None:
    machine = working()
    assert machine.receive(detail("run")) == ()
    corrected = msgspec.structs.replace(detail("run"), code={"mine.py": "0" * 32})
    assert machine.receive(corrected) == (CloseRun("run"), OpenRun(corrected))
    again = msgspec.structs.replace(detail("run"), code={"mine.py": "1" * 32})
    assert machine.receive(again) == (CloseRun("run"), OpenRun(again))
    machine.open("run")
    assert machine.receive(again) == ()


def test_a_run_that_ends_while_it_is_being_opened_is_closed() -> None:
    machine = Machine()
    machine.receive(detail())
    assert machine.receive(TrainEnd(run="run", reason="finished")) == (CloseRun("run"),)
    assert machine.open() == ()
    assert machine.state.work is None


def test_what_is_opened_too_late_is_not_used() -> None:
    machine = Machine()
    machine.receive(detail())
    assert machine.receive(detail("next")) == (CloseRun("run"), OpenRun(detail("next")))
    assert machine.open() == ()
    machine.open("next")
    assert machine.work.run == "next"


@pytest.mark.parametrize(
    ("there", "stateful", "reported"),
    [
        ((4, 6), True, []),
        ((4,), True, ["its state after round 6 is lost, so it goes on from round 4"]),
        ((), True, ["its state after round 6 is lost, so it goes on from the beginning"]),
        ((4,), False, []),
    ],
)
def test_a_client_that_cannot_go_on_from_where_the_server_knows_it_reports_that(
    there: tuple[int, ...], stateful: bool, reported: list[str]
) -> None:
    machine = Machine((0,))
    machine.receive(detail(), current(7, accepted={0: 6}), selected(7, clients=(0,)))
    machine.download(7)
    machine.take(Opened("run", {0: frozenset(there)}, False, machine.now, stateful))
    messages = [action.message for action in machine.of(Publish)]
    assert [
        m.problem for m in messages if isinstance(m, Info) and m.state == "reset"
    ] == reported
    assert machine.started == [("train", 0, max(there, default=None))]
