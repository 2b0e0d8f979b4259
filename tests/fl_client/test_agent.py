"""The agent of a board: every rule, by example."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec
import pytest

from common.messages import (
    PROTOCOL,
    ClientMetrics,
    Count,
    CurrentRound,
    Info,
    Selected,
    TrainDetail,
    TrainEnd,
)
from common.step_choice import base_step, steps_to_keep
from fl_client import agent
from fl_client.agent_state import (
    Action,
    Advanced,
    Cancel,
    CloseRun,
    Event,
    GotPart,
    Heard,
    Job,
    JobFailed,
    Kind,
    Opened,
    OpenFailed,
    OpenRun,
    Policy,
    Prune,
    Publish,
    Reconnected,
    SendUpdate,
    Start,
    State,
    StepLost,
    Tick,
    Trained,
    UpdateStreamed,
    Work,
)
from fl_client.agent_state import Tested as HasTested  # pytest would collect a `Test...`
from fl_client.duties import RESEND_SECONDS, UNCONFIRMED_BYTES

Some = TypeVar("Some", bound=Action)
Word = TrainDetail | CurrentRound | Selected | TrainEnd


class Machine:
    """An agent on its way, with the actions of its last events."""

    def __init__(self, clients: tuple[int, ...] = (0, 1), workers: int = 1) -> None:
        self.policy = Policy("b", clients, workers)
        self.state = State()
        self.now = 100.0
        self.actions: tuple[Action, ...] = ()

    def take(self, *events: Event) -> tuple[Action, ...]:
        self.actions = ()
        for event in events:
            self.state, actions = agent.step(self.policy, self.state, event)
            self.actions += actions
        return self.actions

    def hear(self, *messages: Word) -> tuple[Action, ...]:
        return self.take(*(Heard(message, self.now) for message in messages))

    def wait(self, seconds: float) -> tuple[Action, ...]:
        self.now += seconds
        return self.take(Tick(self.now))

    def open(
        self,
        run: str = "run",
        steps: Mapping[int, Iterable[int]] | None = None,
        *,
        coupled: bool = False,
        private: bool = False,
    ) -> tuple[Action, ...]:
        there = {client: frozenset(numbers) for client, numbers in (steps or {}).items()}
        return self.take(Opened(run, there, coupled, self.now, private=private))

    def download(
        self, number: int = 1, run: str = "run", client: int | None = None
    ) -> tuple[Action, ...]:
        return self.take(GotPart(run, number, True, self.now, client))

    def train(self, job: Job) -> tuple[Action, ...]:
        return self.take(Trained(job, trained(job), self.now))

    def test(self, job: Job) -> tuple[Action, ...]:
        return self.take(HasTested(job, metrics(job.client, job.round), self.now))

    def fail(self, job: Job, problem: str = "out of memory") -> tuple[Action, ...]:
        return self.take(JobFailed(job, problem, self.now))

    def of(self, kind: type[Some]) -> list[Some]:
        return [action for action in self.actions if isinstance(action, kind)]

    @property
    def started(self) -> list[tuple[Kind, int, int | None]]:
        return [(s.job.kind, s.job.client, s.job.base) for s in self.of(Start)]

    @property
    def work(self) -> Work:
        assert self.state.work is not None
        return self.state.work

    @property
    def states(self) -> list[str]:
        """States of the infos that were published."""
        messages = (action.message for action in self.of(Publish))
        return [message.state for message in messages if isinstance(message, Info)]


def detail(run: str = "run") -> TrainDetail:
    return TrainDetail(protocol=PROTOCOL, version="1", run=run, experiment=msgspec.Raw(b"{}"))


def current(number: int = 1, run: str = "run", **changes: object) -> CurrentRound:
    message = CurrentRound(
        run=run, round=number, incarnation=1, safe=(), measured=(), accepted={}
    )
    return msgspec.structs.replace(message, **changes)


def selected(
    number: int = 1,
    run: str = "run",
    clients: tuple[int, ...] = (0, 1),
    testers: tuple[int, ...] = (),
) -> Selected:
    return Selected(run=run, round=number, clients=clients, testers=testers)


def metrics(client: int, number: int = 1) -> ClientMetrics:
    counts = {"G": Count(correct=1, total=2)}
    return msgspec.convert(
        {"run": "run", "round": number, "client": client, "counts": counts}, ClientMetrics
    )


def trained(job: Job) -> Info:
    return Info(run="run", round=job.round, client=job.client, board="b", state="trained")


def train(client: int, number: int = 1, base: int | None = None) -> Job:
    return Job("train", client, number, base)


def check(client: int, number: int = 1, base: int | None = None) -> Job:
    return Job("test", client, number, base)


def working(
    clients: tuple[int, ...] = (0, 1),
    testers: tuple[int, ...] = (),
    workers: int = 1,
    steps: Mapping[int, Iterable[int]] | None = None,
) -> Machine:
    """A board with clients 0 and 1 in round 1."""
    machine = Machine(workers=workers)
    machine.hear(detail())
    machine.open(steps=steps)
    machine.hear(current(), selected(clients=clients, testers=testers))
    machine.download()
    return machine


# agreement


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_a_board_acts_on_agreement_whatever_the_order(order: tuple[int, ...]) -> None:
    machine = Machine()
    words = (
        lambda: (machine.hear(detail()), machine.open()),
        lambda: machine.hear(current()),
        lambda: machine.hear(selected()),
        machine.download,
    )
    for index in order[:-1]:
        words[index]()
        assert machine.started == []
    words[order[-1]]()
    assert machine.started == [("train", 0, None)]
    assert machine.states == ["training"]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_a_new_run_begins_over_an_old_one_whatever_the_order(order: tuple[int, ...]) -> None:
    machine = working()
    words = (
        lambda: (machine.hear(detail("next")), machine.open("next")),
        lambda: machine.hear(current(run="next")),
        lambda: machine.hear(selected(run="next")),
        lambda: machine.download(run="next"),
    )
    for index in order:
        words[index]()
    assert machine.work.run == "next"
    assert machine.work.jobs == {train(0)}


def test_nothing_starts_when_the_words_are_of_different_rounds() -> None:
    machine = Machine()
    machine.hear(detail())
    machine.open()
    machine.hear(current(2), selected(1))
    machine.download(1)
    machine.download(2)
    assert machine.actions == ()
    machine.hear(selected(2))
    assert machine.started == [("train", 0, None)]


def test_a_late_selection_of_an_older_round_does_not_stop_the_work() -> None:
    machine = working()
    machine.hear(current(2), selected(2))
    machine.hear(selected(1))
    machine.take(JobFailed(train(0), "", machine.now))
    machine.download(2)
    assert machine.started == [("train", 0, None)]
    assert machine.work.jobs == {train(0, 2)}


def test_words_of_an_old_run_do_not_stop_the_work() -> None:
    machine = working()
    machine.hear(current(7, run="old", incarnation=99), selected(7, run="old"))
    machine.download(7, run="old")
    machine.train(train(0))
    assert SendUpdate(0, 1) in machine.actions
    assert machine.started == [("train", 1, None)]


def test_a_coordinator_that_was_restarted_counts_more_than_its_predecessor() -> None:
    machine = working()
    machine.hear(current(safe=(0, 1)))
    machine.hear(current(incarnation=2))
    machine.hear(current(incarnation=1, safe=(0, 1)), current(incarnation=1, number=5))
    assert machine.state.current["run"] == current(incarnation=2)


def test_what_was_safe_stays_safe_when_words_come_in_the_wrong_order() -> None:
    machine = working()
    machine.hear(current(safe=(0, 1), measured=(1,)), current(safe=(0,), measured=(0,)))
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
    machine = working(steps={0: {1}})
    assert machine.started == [("train", 1, None)]
    assert machine.work.sent == {("train", 0, 1): math.inf}


def test_what_is_safe_or_measured_is_not_computed_again() -> None:
    machine = Machine()
    machine.hear(detail())
    machine.open()
    machine.hear(current(safe=(0, 1), measured=(0,)), selected(testers=(0, 1)))
    machine.download()
    assert machine.started == [("test", 1, None)]


def test_a_client_goes_on_from_its_newest_step_before_the_round() -> None:
    machine = working(clients=(0,), testers=(0,), steps={0: {1}})
    machine.hear(current(2), selected(2, clients=(0,), testers=(0,)))
    machine.fail(check(0), "")
    machine.download(2)
    assert machine.started == [("train", 0, 1)]
    machine.train(train(0, 2, base=1))
    assert machine.started == [("test", 0, 1)]


def test_a_coupled_client_goes_on_from_the_step_that_the_server_used() -> None:
    machine = Machine()
    machine.hear(detail())
    machine.open(steps={0: {1, 2}, 1: {2}}, coupled=True)
    machine.hear(current(3, accepted={0: 1, 1: 1}), selected(3))
    machine.download(3)
    assert machine.started == [("train", 0, 1)]
    machine.train(train(0, 3, base=1))
    assert machine.of(Prune) == [Prune(0, frozenset({1, 2, 3}))]
    assert machine.started == [("train", 1, None)]  # the step that was used is not there


def test_progress_is_published() -> None:
    machine = working()
    info = Info(run="run", round=1, client=0, board="b", state="training", epoch=1, epochs=5)
    assert machine.take(Advanced(train(0), info, machine.now)) == (Publish(info),)
    assert machine.take(Advanced(train(1), info, machine.now)) == ()


def test_jobs_of_an_old_round_are_cancelled_once_and_keep_their_place_until_they_end() -> None:
    machine = working()
    machine.hear(current(2), selected(2))
    assert machine.of(Cancel) == [Cancel(train(0))]
    machine.download(2)
    assert machine.actions == ()
    machine.wait(1.0)
    assert machine.of(Cancel) == []
    machine.fail(train(0), "")
    assert machine.started == [("train", 0, None)]
    assert "failed" not in machine.states


def test_failures_are_said_and_tried_again_backing_off() -> None:
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
    assert machine.fail(train(0, number=9)) == ()
    assert machine.state == before
    idle = Machine()
    assert idle.train(train(0)) == ()
    assert idle.take(StepLost(0, 1, 0.0), UpdateStreamed(0, 1, 0.0)) == ()
    assert idle.state == State()


# downloads for one client


def expecting(testers: tuple[int, ...] = (), workers: int = 2) -> Machine:
    """A board in round 1 of an algorithm that sends every client something of its own."""
    machine = Machine(workers=workers)
    machine.hear(detail())
    machine.open(private=True)
    machine.hear(current(), selected(testers=testers))
    return machine


def test_a_client_trains_once_its_own_download_is_complete() -> None:
    machine = expecting()
    machine.download()
    assert machine.started == []
    machine.take(GotPart("run", 1, complete=False, now=machine.now, client=1))
    assert machine.started == []
    machine.download(client=1)
    assert machine.started == [("train", 1, None)]
    machine.download(client=0)
    assert machine.started == [("train", 0, None)]


def test_a_download_of_its_own_does_not_stand_in_for_that_of_all() -> None:
    machine = expecting()
    machine.download(client=0)
    assert machine.started == []
    machine.download()
    assert machine.started == [("train", 0, None)]


def test_a_test_needs_only_the_download_of_all() -> None:
    machine = expecting(testers=(0, 1))
    machine.download()
    assert machine.started == [("test", 0, None), ("test", 1, None)]


def test_an_own_download_that_does_not_come_is_asked_for() -> None:
    machine = expecting()
    machine.download()
    machine.download(client=0)
    machine.train(train(0))
    assert machine.wait(2.9) == ()
    machine.wait(0.1)
    missing = [m for m in (a.message for a in machine.of(Publish)) if isinstance(m, Info)]
    assert [(m.state, m.client, m.round) for m in missing] == [("missing", 1, 1)]
    machine.download(client=1)
    assert machine.started == [("train", 1, None)]
    machine.wait(3.0)
    assert "missing" not in machine.states


@pytest.mark.parametrize(("number", "run"), [(1, "run"), (3, "run"), (2, "old")])
def test_an_own_download_of_another_round_or_run_starts_nothing(number: int, run: str) -> None:
    machine = expecting()
    machine.hear(current(2), selected(2))
    machine.download(2)
    machine.download(number, run, client=0)
    assert machine.started == []
    machine.download(2, client=0)
    assert machine.started == [("train", 0, None)]


# steps on disk


def test_pruning_keeps_this_step_the_one_before_and_the_last_that_was_used() -> None:
    machine = Machine()
    machine.hear(detail())
    machine.open(steps={0: {1, 2, 3, 4}})
    machine.hear(current(5, accepted={0: 2}), selected(5))
    machine.download(5)
    machine.train(train(0, 5, base=4))
    assert machine.of(Prune) == [Prune(0, frozenset({2, 4, 5}))]
    assert machine.work.steps[0] == {2, 4, 5}


def test_a_late_training_of_an_old_round_deletes_nothing() -> None:
    machine = working(clients=(0,), workers=2)
    machine.hear(current(2), selected(2, clients=(0,)))
    machine.download(2)
    machine.train(train(0, 2))
    machine.train(train(0, 1))
    assert machine.of(Prune) == [Prune(0, frozenset({1, 2}))]


def test_words_of_another_run_do_not_decide_what_is_kept() -> None:
    machine = Machine()
    machine.hear(detail())
    machine.open(steps={0: {1, 2}}, coupled=True)
    machine.hear(current(3, accepted={0: 1}), selected(3))
    machine.download(3)
    machine.hear(current(3, run="old", accepted={0: 2}))
    machine.train(train(0, 3, base=1))
    assert machine.of(Prune) == [Prune(0, frozenset({1, 2, 3}))]


def test_a_damaged_step_is_trained_again() -> None:
    machine = working(steps={0: {1}, 1: {1}})
    machine.take(StepLost(0, 1, machine.now))
    assert machine.actions == (Start(train(0)), Publish(begun(0)))
    machine.train(train(0))
    assert machine.of(SendUpdate) == [SendUpdate(0, 1)]  # client 1's is still on its way


def begun(client: int) -> Info:
    return Info(run="run", round=1, client=client, board="b", state="training")


@pytest.mark.parametrize(
    ("coupled", "accepted", "base"),
    [(False, None, 3), (False, 1, 3), (True, 1, 1), (True, None, None), (True, 2, None)],
)
def test_the_base_of_a_round(coupled: bool, accepted: int | None, base: int | None) -> None:
    there = frozenset({1, 3, 4, 5})
    assert base_step(there, 4, coupled=coupled, accepted=accepted) == base


def test_the_first_round_has_no_base() -> None:
    assert base_step(frozenset({1}), 1, coupled=False, accepted=None) is None


def test_steps_that_are_not_there_are_not_kept() -> None:
    assert steps_to_keep(frozenset(), 1, None) == {1}
    assert steps_to_keep(frozenset({3, 4}), 5, 1) == {4, 5}


# sending


def test_an_update_is_sent_again_until_it_is_safe() -> None:
    machine = working(clients=(0,))
    machine.train(train(0))
    assert machine.of(SendUpdate) == [SendUpdate(0, 1)]
    assert machine.wait(100.0) == ()  # on its way
    machine.take(UpdateStreamed(0, 1, machine.now))
    assert machine.wait(2.9) == ()
    assert machine.wait(0.1) == (SendUpdate(0, 1, again=True), Publish(trained(train(0))))
    machine.take(UpdateStreamed(0, 1, machine.now))
    machine.hear(current(safe=(0,)))
    assert machine.wait(100.0) == ()


def test_large_updates_wait_until_those_before_them_are_safe() -> None:
    machine = working(clients=(0, 1))
    for client in (0, 1):
        large = msgspec.structs.replace(trained(train(client)), bytes=UNCONFIRMED_BYTES)
        machine.take(Trained(train(client), large, machine.now))
        assert machine.of(SendUpdate) == ([SendUpdate(0, 1)] if client == 0 else [])
    machine.take(UpdateStreamed(0, 1, machine.now))
    assert machine.wait(RESEND_SECONDS / 2) == ()
    machine.wait(RESEND_SECONDS / 2)
    assert machine.of(SendUpdate) == [SendUpdate(0, 1, again=True)]
    machine.hear(current(safe=(0,)))
    assert machine.of(SendUpdate) == [SendUpdate(1, 1)]


def test_counts_are_sent_again_until_they_are_confirmed() -> None:
    machine = working(clients=(), testers=(0,))
    assert machine.test(check(0)) == (Publish(metrics(0)),)
    assert machine.wait(2.9) == ()
    assert machine.wait(0.1) == (Publish(metrics(0)),)
    machine.hear(current(measured=(0,)))
    assert machine.wait(100.0) == ()


def test_after_a_reconnect_everything_unconfirmed_is_sent_at_once() -> None:
    machine = working(clients=(0,), testers=(0,))
    machine.train(train(0))
    machine.test(check(0))
    assert machine.take(Reconnected(machine.now)) == (
        SendUpdate(0, 1),
        Publish(trained(train(0))),
        Publish(metrics(0)),
    )
    assert Machine().take(Reconnected(0.0)) == ()


def test_a_restarted_coordinator_gets_again_what_it_has_forgotten() -> None:
    machine = working(clients=(), testers=(0,))
    machine.test(check(0))
    machine.hear(current(measured=(0,)))
    machine.now += 3.0
    assert machine.hear(current(incarnation=2)) == (Publish(metrics(0)),)


def test_nothing_of_an_old_round_is_sent() -> None:
    machine = working(clients=(0,), testers=(0,))
    machine.train(train(0))
    machine.test(check(0))
    machine.hear(current(2), selected(2, clients=(1,)))
    machine.take(UpdateStreamed(0, 1, machine.now))
    machine.wait(100.0)
    assert machine.of(SendUpdate) == []
    assert machine.states == ["missing"]


def test_an_update_nobody_asked_for_is_not_sent() -> None:
    machine = working(clients=(1,), steps={0: {1}})
    assert machine.of(SendUpdate) == []
    assert machine.started == [("train", 1, None)]


# weights


def test_missing_weights_are_asked_for_again_and_again() -> None:
    machine = Machine()
    machine.hear(detail())
    machine.open()
    machine.hear(current(), selected())
    asked = [machine.now for _ in range(10) if "missing" in _states_after(machine)]
    assert asked == [103.0, 106.0, 109.0]


def _states_after(machine: Machine) -> list[str]:
    machine.wait(1.0)
    return machine.states


def test_weights_on_their_way_are_not_asked_for() -> None:
    machine = Machine()
    machine.hear(detail())
    machine.open()
    machine.hear(current(), selected())
    for _ in range(10):
        machine.wait(2.0)
        assert machine.actions == ()
        machine.take(GotPart("run", 1, False, machine.now))


def test_a_board_with_nothing_to_do_does_not_ask_for_weights() -> None:
    machine = Machine()
    machine.hear(detail())
    machine.open()
    machine.hear(current(), selected(clients=(5,)))
    assert machine.wait(100.0) == ()


def test_weights_that_are_no_longer_kept_are_asked_for() -> None:
    machine = working(clients=(0,))
    machine.download(8, run="old")
    machine.download(9, run="old")
    machine.fail(train(0))
    machine.wait(10.0)
    assert machine.states == ["missing"]
    machine.download(1)
    assert machine.started == [("train", 0, None)]


def test_weights_stay_known_while_another_run_comes_and_goes() -> None:
    machine = working(clients=(0,))
    machine.hear(detail("other"))
    machine.open("other")
    machine.hear(TrainEnd(run="other", reason="finished"), detail())
    machine.open()
    assert machine.started == [("train", 0, None)]


# runs


def test_a_run_is_opened_once_and_again_after_a_failure() -> None:
    machine = Machine()
    assert machine.hear(detail()) == (OpenRun(detail()),)
    assert machine.hear(detail(), detail()) == ()
    machine.take(OpenFailed("run", machine.now))
    assert machine.wait(4.9) == ()
    assert machine.wait(0.1) == (OpenRun(detail()),)
    assert machine.take(OpenFailed("other", machine.now)) == ()


def test_the_end_closes_the_run() -> None:
    machine = working()
    assert machine.hear(TrainEnd(run="run", reason="finished")) == (CloseRun("run"),)
    assert machine.state.work is None
    assert machine.hear(detail(), current(2), selected(2)) == ()


def test_the_end_of_another_run_changes_nothing() -> None:
    machine = working()
    assert machine.hear(TrainEnd(run="old", reason="finished")) == ()
    assert machine.work.jobs == {train(0)}


def test_a_board_that_comes_after_the_end_starts_nothing() -> None:
    machine = Machine()
    machine.hear(TrainEnd(run="run", reason="finished"), detail(), current(), selected())
    machine.download()
    assert machine.wait(100.0) == ()


def test_all_runs_that_have_ended_are_remembered() -> None:
    machine = Machine()
    machine.hear(*(TrainEnd(run=run, reason="finished") for run in ("one", "two")))
    assert machine.hear(detail("one")) == ()
    assert machine.hear(detail("two")) == ()
    assert machine.hear(detail("three")) == (OpenRun(detail("three")),)


def test_a_new_run_closes_the_old_one() -> None:
    machine = working()
    assert machine.hear(detail("next")) == (CloseRun("run"), OpenRun(detail("next")))
    machine.train(train(0))
    assert machine.actions == ()
    machine.open("next")
    machine.hear(current(run="next"), selected(run="next"))
    machine.download(run="next")
    assert machine.started == [("train", 0, None)]


def test_a_run_that_ends_while_it_is_being_opened_is_closed() -> None:
    machine = Machine()
    machine.hear(detail())
    assert machine.hear(TrainEnd(run="run", reason="finished")) == (CloseRun("run"),)
    assert machine.open() == ()
    assert machine.state.work is None


def test_what_is_opened_too_late_is_not_used() -> None:
    machine = Machine()
    machine.hear(detail())
    assert machine.hear(detail("next")) == (CloseRun("run"), OpenRun(detail("next")))
    assert machine.open() == ()
    machine.open("next")
    assert machine.work.run == "next"


@pytest.mark.parametrize(
    ("there", "stateful", "said"),
    [
        ((4, 6), True, []),
        ((4,), True, ["its state after round 6 is lost, so it goes on from round 4"]),
        ((), True, ["its state after round 6 is lost, so it goes on from the beginning"]),
        ((4,), False, []),
    ],
)
def test_a_client_that_cannot_go_on_from_where_the_server_knows_it_says_so(
    there: tuple[int, ...], stateful: bool, said: list[str]
) -> None:
    machine = Machine((0,))
    machine.hear(detail(), current(7, accepted={0: 6}), selected(7, clients=(0,)))
    machine.download(7)
    machine.take(Opened("run", {0: frozenset(there)}, False, machine.now, stateful))
    messages = [action.message for action in machine.of(Publish)]
    assert [m.problem for m in messages if isinstance(m, Info) and m.state == "reset"] == said
    assert machine.started == [("train", 0, max(there, default=None))]
