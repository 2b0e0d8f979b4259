"""Secured rounds: who is in a step is decided once, and too few open nothing."""

from __future__ import annotations

import math

from common.wire.messages import CurrentRound, Step
from fl_server.rounds import machine as rounds
from fl_server.rounds.sealing import wants_secret
from fl_server.rounds.state import (
    Answered,
    Close,
    Open,
    Policy,
    Publish,
    Reconnected,
    SendSecrets,
    Settle,
)
from fl_server.rounds.steps import Sealing
from tests.fl_server.rounds.round_machine import Machine, begun, gone, info, patient

SECURED = patient(threshold=0.6, evaluate_every=9, grace=math.inf)
HASTY = patient(threshold=0.6, evaluate_every=9, grace=10.0)


def answer(machine: Machine, step: Step, *clients: int) -> None:
    machine.take(*(Answered(client, 1, step, machine.now) for client in clients))


def started(policy: Policy = SECURED) -> Machine:
    machine = begun(policy)
    machine.measure(0, 1, 2, 3)
    return machine


def at_updates(policy: Policy = SECURED) -> Machine:
    machine = started(policy)
    answer(machine, "keys", 0, 1, 2, 3)
    answer(machine, "shares", 0, 1, 2, 3)
    return machine


def step_said(machine: Machine) -> CurrentRound:
    said = [p.message for p in machine.of(Publish) if isinstance(p.message, CurrentRound)]
    return said[-1]


def test_a_round_goes_through_all_steps_and_closes_with_everybody() -> None:
    machine = started()
    answer(machine, "keys", 0, 1, 2)
    assert machine.of(Settle) == []
    answer(machine, "keys", 3)
    assert machine.of(Settle) == [Settle(1, "shares", (0, 1, 2, 3), 3)]
    assert machine.of(SendSecrets) == [SendSecrets(1, (0, 1, 2, 3))]
    assert (step_said(machine).step, step_said(machine).answered) == ("shares", ())
    answer(machine, "shares", 0, 1, 2, 3)
    assert machine.of(Settle) == [Settle(1, "updates", (0, 1, 2, 3), 3)]
    machine.store(0, 1, 2, 3)
    assert machine.of(Settle) == [Settle(1, "opening", (0, 1, 2, 3), 3)]
    assert machine.of(Close) == []
    answer(machine, "opening", 3, 1)
    assert machine.of(Close) == []
    answer(machine, "opening", 0)
    assert machine.of(Close) == [Close(1, (0, 1, 2, 3), (), training=True)]


def test_no_update_is_wanted_before_masks_are_agreed_on() -> None:
    machine = started()
    ids = {"run": "run", "round_number": 1, "client": 0}
    assert not rounds.wants(machine.policy, machine.state, **ids)  # type: ignore[arg-type]
    machine.store(0)
    assert machine.working.safe == frozenset()
    ready = at_updates()
    assert rounds.wants(ready.policy, ready.state, **ids)  # type: ignore[arg-type]


def test_an_answer_of_another_step_or_a_second_one_changes_nothing() -> None:
    machine = started()
    answer(machine, "shares", 0)
    answer(machine, "opening", 0)
    assert machine.working.sealing == Sealing()
    answer(machine, "keys", 0)
    assert not wants_secret(machine.state, round_number=1, client=0, step="keys")
    assert wants_secret(machine.state, round_number=1, client=1, step="keys")
    assert not wants_secret(machine.state, round_number=2, client=1, step="keys")


def test_who_drops_out_after_the_shares_is_not_in_the_sum() -> None:
    machine = at_updates(HASTY)
    machine.store(0, 1, 2)
    machine.hear(info(3, "failed", "b", problem="out of memory"))
    machine.wait(10.0)
    assert machine.of(Settle) == [Settle(1, "opening", (0, 1, 2), 3)]
    assert step_said(machine).answered == (3,)
    assert 3 in step_said(machine).safe
    machine.store(3)
    assert machine.working.safe == {0, 1, 2}
    answer(machine, "opening", 0, 1, 2)
    assert machine.of(Close) == [Close(1, (0, 1, 2), (3,), training=True)]
    assert machine.notes["dropped"]


def test_with_too_few_left_the_sum_is_not_opened_and_the_round_says_so() -> None:
    machine = at_updates(HASTY)
    machine.store(0, 1)
    machine.hear(gone("b", (2, 3)))
    machine.wait(10.0)
    assert machine.notes["unopened"] == (
        "the sum of round 1 is not opened: 2 of 4 clients are left (updates), and 3 are needed"
    )
    assert machine.of(Close) == [Close(1, (), (0, 1, 2, 3), training=True)]


def test_so_it_is_if_too_few_answer_at_last() -> None:
    machine = at_updates(HASTY)
    machine.store(0, 1, 2, 3)
    answer(machine, "opening", 0, 1)
    machine.hear(gone("b", (2, 3)))
    machine.wait(10.0)
    assert "2 of 4 clients are left (opening)" in machine.notes["unopened"]
    assert machine.of(Close)[0].used == ()


def test_a_patient_round_waits_for_them() -> None:
    machine = at_updates()
    machine.store(0, 1)
    machine.hear(gone("b", (2, 3)))
    machine.wait(10_000.0)
    assert machine.of(Close) == []
    assert "waits for clients 2-3" in machine.notes["waiting"]


def test_fewer_than_three_with_keys_are_waited_for() -> None:
    machine = started(HASTY)
    answer(machine, "keys", 0, 1)
    machine.hear(gone("b", (2, 3)))
    machine.wait(100.0)
    assert (machine.of(Settle), machine.of(Close)) == ([], [])
    answer(machine, "keys", 2)
    machine.hear(gone("b", (2, 3)))
    machine.wait(10.0)
    assert machine.of(Settle) == [Settle(1, "shares", (0, 1, 2), 2)]


def test_a_client_that_cannot_go_on_is_not_waited_for() -> None:
    machine = at_updates()
    machine.store(0, 1, 2)
    machine.hear(info(3, "withdrawn", "b", problem="values beyond 4096"))
    assert machine.notes["rejected"].endswith("takes no part in round 1: values beyond 4096")
    assert machine.of(Settle) == [Settle(1, "opening", (0, 1, 2), 3)]


def test_a_refusal_to_open_is_shown() -> None:
    machine = at_updates()
    machine.store(0, 1, 2, 3)
    machine.hear(info(3, "refused", "b", problem="it would open single updates"))
    assert machine.notes["reveal_refused"] == (
        "client 3 on board b refuses to open round 1: it would open single updates"
    )
    assert machine.working.rejected == frozenset()


def test_a_restarted_coordinator_goes_on_in_the_same_step() -> None:
    sealing = Sealing("opening", (0, 1, 2), 3, frozenset({0}))
    state = rounds.resume(
        incarnation=2,
        done=0,
        accepted={},
        opened=Open(1, (0, 1, 2, 3), ()),
        safe=frozenset({0, 1}),
        now=0.0,
        sealing=sealing,
    )
    machine = Machine(SECURED, state)
    machine.take(Reconnected(0.0))
    assert machine.of(SendSecrets) == [SendSecrets(1, (1, 2))]
    answer(machine, "opening", 1, 2)
    assert machine.of(Close) == []  # the file of an update was damaged
    machine.store(2)
    assert machine.of(Close) == [Close(1, (0, 1, 2), (3,), training=True)]
