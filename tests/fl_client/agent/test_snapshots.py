"""The agent: downloads for one client, and snapshots on disk."""

from __future__ import annotations

import pytest

from common.wire.messages import (
    Info,
)
from common.worker.snapshot_choice import base_snapshot, snapshots_to_keep
from fl_client.agent.state import (
    PartReceived,
    Prune,
    Publish,
    SendUpdate,
    SnapshotLost,
    StartJob,
)
from tests.fl_client.agent.agent_machine import (
    Machine,
    current,
    detail,
    selected,
    train,
    working,
)

# downloads for one client


def expecting(testers: tuple[int, ...] = (), workers: int = 2) -> Machine:
    """A board in round 1 of an algorithm that sends every client something of its own."""
    machine = Machine(workers=workers)
    machine.receive(detail())
    machine.open(private=True)
    machine.receive(current(), selected(testers=testers))
    return machine


def test_a_client_trains_once_its_own_download_is_complete() -> None:
    machine = expecting()
    machine.download()
    assert machine.started == []
    machine.take(PartReceived("run", 1, complete=False, now=machine.now, client=1))
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


@pytest.mark.parametrize(("round_number", "run"), [(1, "run"), (3, "run"), (2, "old")])
def test_an_own_download_of_another_round_or_run_starts_nothing(
    round_number: int, run: str
) -> None:
    machine = expecting()
    machine.receive(current(2), selected(2))
    machine.download(2)
    machine.download(round_number, run, client=0)
    assert machine.started == []
    machine.download(2, client=0)
    assert machine.started == [("train", 0, None)]


# snapshots on disk


def test_pruning_keeps_this_step_the_one_before_and_the_last_that_was_used() -> None:
    machine = Machine()
    machine.receive(detail())
    machine.open(snapshots={0: {1, 2, 3, 4}})
    machine.receive(current(5, accepted={0: 2}), selected(5))
    machine.download(5)
    machine.train(train(0, 5, base=4))
    assert machine.of(Prune) == [Prune(0, frozenset({2, 4, 5}))]
    assert machine.work.snapshots[0] == {2, 4, 5}


def test_a_late_training_of_an_old_round_deletes_nothing() -> None:
    machine = working(clients=(0,), workers=2)
    machine.receive(current(2), selected(2, clients=(0,)))
    machine.download(2)
    machine.train(train(0, 2))
    machine.train(train(0, 1))
    assert machine.of(Prune) == [Prune(0, frozenset({1, 2}))]


def test_messages_of_another_run_do_not_decide_what_is_kept() -> None:
    machine = Machine()
    machine.receive(detail())
    machine.open(snapshots={0: {1, 2}}, coupled=True)
    machine.receive(current(3, accepted={0: 1}), selected(3))
    machine.download(3)
    machine.receive(current(3, run="old", accepted={0: 2}))
    machine.train(train(0, 3, base=1))
    assert machine.of(Prune) == [Prune(0, frozenset({1, 2, 3}))]


def test_a_damaged_step_is_trained_again() -> None:
    machine = working(snapshots={0: {1}, 1: {1}})
    machine.take(SnapshotLost(0, 1, machine.now))
    assert machine.actions == (StartJob(train(0)), Publish(begun(0)))
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
    assert base_snapshot(there, 4, coupled=coupled, accepted=accepted) == base


def test_the_first_round_has_no_base() -> None:
    assert base_snapshot(frozenset({1}), 1, coupled=False, accepted=None) is None


def test_steps_that_are_not_there_are_not_kept() -> None:
    assert snapshots_to_keep(frozenset(), 1, None) == {1}
    assert snapshots_to_keep(frozenset({3, 4}), 5, 1) == {4, 5}
