"""The agent: agreement, and the jobs that follow from it."""

from __future__ import annotations

import itertools
import math

import msgspec
import pytest

from common.wire.messages import (
    Info,
)
from fl_client.agent.state import (
    CancelJob,
    EpochFinished,
    Job,
    JobFailed,
    Prune,
    Publish,
    SendUpdate,
    SnapshotLost,
    StartJob,
    State,
    UpdateStreamed,
)
from tests.fl_client.agent.agent_machine import (
    Machine,
    check,
    current,
    detail,
    selected,
    train,
    working,
)

# agreement


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_a_board_acts_on_agreement_whatever_the_order(order: tuple[int, ...]) -> None:
    machine = Machine()
    messages = (
        lambda: (machine.receive(detail()), machine.open()),
        lambda: machine.receive(current()),
        lambda: machine.receive(selected()),
        machine.download,
    )
    for index in order[:-1]:
        messages[index]()
        assert machine.started == []
    messages[order[-1]]()
    assert machine.started == [("train", 0, None)]
    assert machine.states == ["training"]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_a_new_run_begins_over_an_old_one_whatever_the_order(order: tuple[int, ...]) -> None:
    machine = working()
    messages = (
        lambda: (machine.receive(detail("next")), machine.open("next")),
        lambda: machine.receive(current(run="next")),
        lambda: machine.receive(selected(run="next")),
        lambda: machine.download(run="next"),
    )
    for index in order:
        messages[index]()
    assert machine.work.run == "next"
    assert machine.work.jobs == {train(0)}


def test_nothing_starts_when_the_messages_are_of_different_rounds() -> None:
    machine = Machine()
    machine.receive(detail())
    machine.open()
    machine.receive(current(2), selected(1))
    machine.download(1)
    machine.download(2)
    assert machine.actions == ()
    machine.receive(selected(2))
    assert machine.started == [("train", 0, None)]


def test_a_late_selection_of_an_older_round_does_not_stop_the_work() -> None:
    machine = working()
    machine.receive(current(2), selected(2))
    machine.receive(selected(1))
    machine.take(JobFailed(train(0), "", machine.now))
    machine.download(2)
    assert machine.started == [("train", 0, None)]
    assert machine.work.jobs == {train(0, 2)}


def test_messages_of_an_old_run_do_not_stop_the_work() -> None:
    machine = working()
    machine.receive(current(7, run="old", incarnation=99), selected(7, run="old"))
    machine.download(7, run="old")
    machine.train(train(0))
    assert SendUpdate(0, 1) in machine.actions
    assert machine.started == [("train", 1, None)]


def test_a_coordinator_that_was_restarted_counts_more_than_its_predecessor() -> None:
    machine = working()
    machine.receive(current(safe=(0, 1)))
    machine.receive(current(incarnation=2))
    machine.receive(current(incarnation=1, safe=(0, 1)), current(incarnation=1, round_number=5))
    assert machine.state.current["run"] == current(incarnation=2)


def test_what_was_safe_stays_safe_when_messages_come_in_the_wrong_order() -> None:
    machine = working()
    machine.receive(current(safe=(0, 1), measured=(1,)), current(safe=(0,), measured=(0,)))
    known = machine.state.current["run"]
    assert (known.safe, known.measured) == ((0, 1), (0, 1))


# jobs


def test_selected_clients_train_first_then_all_testers_test() -> None:
    machine = working(clients=(1,), testers=(0, 1))
    assert machine.started == [("train", 1, None)]
    machine.train(train(1))
    assert machine.started == [("test", 0, None)]
    machine.test(check(0))
    assert machine.started == [("test", 1, None)]
    assert machine.states == ["testing"]
    machine.test(check(1))
    assert machine.started == []


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_there_are_never_more_jobs_than_workers(workers: int) -> None:
    machine = working(testers=(0, 1), workers=workers)
    assert len(machine.started) == workers == len(machine.work.jobs)
    machine.train(train(0))
    assert len(machine.work.jobs) == min(workers, 3)


def test_clients_of_other_boards_are_left_alone() -> None:
    machine = working(clients=(5, 6), testers=(7,))
    assert machine.actions == ()


def test_what_is_on_disk_is_sent_and_not_trained_again() -> None:
    machine = working(snapshots={0: {1}})
    assert machine.started == [("train", 1, None)]
    assert machine.work.sent == {("train", 0, 1): math.inf}


def test_what_is_safe_or_measured_is_not_computed_again() -> None:
    machine = Machine()
    machine.receive(detail())
    machine.open()
    machine.receive(current(safe=(0, 1), measured=(0,)), selected(testers=(0, 1)))
    machine.download()
    assert machine.started == [("test", 1, None)]


def test_a_client_goes_on_from_its_newest_step_before_the_round() -> None:
    machine = working(clients=(0,), testers=(0,), snapshots={0: {1}})
    machine.receive(current(2), selected(2, clients=(0,), testers=(0,)))
    machine.fail(check(0), "")
    machine.download(2)
    assert machine.started == [("train", 0, 1)]
    machine.train(train(0, 2, base=1))
    assert machine.started == [("test", 0, 1)]


def test_a_coupled_client_goes_on_from_the_step_that_the_server_used() -> None:
    machine = Machine()
    machine.receive(detail())
    machine.open(snapshots={0: {1, 2}, 1: {2}}, coupled=True)
    machine.receive(current(3, accepted={0: 1, 1: 1}), selected(3))
    machine.download(3)
    assert machine.started == [("train", 0, 1)]
    machine.train(train(0, 3, base=1))
    assert machine.of(Prune) == [Prune(0, frozenset({1, 2, 3}))]
    assert machine.started == [("train", 1, None)]  # the step that was used is not there


def test_progress_is_published() -> None:
    machine = working()
    info = Info(run="run", round=1, client=0, board="b", state="training", epoch=1, epochs=5)
    assert machine.take(EpochFinished(train(0), info, machine.now)) == (Publish(info),)
    assert machine.take(EpochFinished(train(1), info, machine.now)) == ()


def test_jobs_of_an_old_round_are_cancelled_once_and_keep_their_place_until_they_end() -> None:
    machine = working()
    machine.receive(current(2), selected(2))
    assert machine.of(CancelJob) == [CancelJob(train(0))]
    machine.download(2)
    assert machine.actions == ()
    machine.wait(1.0)
    assert machine.of(CancelJob) == []
    machine.fail(train(0), "")
    assert machine.started == [("train", 0, None)]
    assert "failed" not in machine.states


def test_a_client_goes_on_with_an_older_model_and_sends_that_update() -> None:
    machine = working()
    older = msgspec.structs.replace(selected(2, clients=(0, 1)), started={0: 1})
    machine.receive(current(2), older)
    machine.download(2)
    assert machine.of(CancelJob) == []
    machine.train(train(0))
    assert machine.of(SendUpdate) == [SendUpdate(0, 1)]
    assert machine.of(StartJob) == [StartJob(Job("train", 1, 2, None))]


def test_a_client_whose_older_model_is_gone_says_so() -> None:
    machine = Machine()
    older = msgspec.structs.replace(selected(4, clients=(0,)), started={0: 2})
    machine.receive(detail(), current(4), older)
    machine.open()
    machine.download(4)
    assert machine.started == []
    machine.wait(3.0)
    (asked,) = [p.message for p in machine.of(Publish) if isinstance(p.message, Info)]
    assert (asked.state, asked.client, asked.round) == ("missing", 0, 2)
    machine.receive(selected(4, clients=(0,)))
    assert machine.of(StartJob) == [StartJob(Job("train", 0, 4, None))]


def test_a_training_is_given_up_when_its_client_does_not_count_any_more() -> None:
    machine = working()
    machine.receive(selected(clients=(1,)))
    assert machine.of(CancelJob) == [CancelJob(train(0))]
    machine.fail(train(0), "")
    assert machine.started == [("train", 1, None)]


def test_failures_are_reported_and_tried_again_backing_off() -> None:
    machine = working(clients=(0,))
    tried = []
    for _ in range(6):
        machine.fail(train(0))
        assert machine.states == ["failed"]
        failed = machine.now
        while not machine.started:
            machine.wait(1.0)
        tried.append(machine.now - failed)
    assert tried == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0]


def test_while_one_client_waits_after_a_failure_another_trains() -> None:
    machine = working()
    machine.fail(train(0))
    assert machine.started == [("train", 1, None)]


def test_after_a_success_the_next_failure_waits_briefly_again() -> None:
    machine = working(clients=(0,))
    machine.fail(train(0))
    machine.wait(5.0)
    machine.train(train(0))
    assert machine.work.retries == {}


def test_reports_of_jobs_that_nobody_runs_are_ignored() -> None:
    machine = working()
    before = machine.state
    assert machine.train(train(1)) == ()
    assert machine.test(check(1)) == ()
    assert machine.fail(train(0, round_number=9)) == ()
    assert machine.state == before
    idle = Machine()
    assert idle.train(train(0)) == ()
    assert idle.take(SnapshotLost(0, 1, 0.0), UpdateStreamed(0, 1, 0.0)) == ()
    assert idle.state == State()
