"""The agent: what it sends, again and again, and what it asks for."""

from __future__ import annotations

import msgspec

from common.wire.messages import (
    TrainEnd,
)
from fl_client.agent.duties import RESEND_AT_MOST, RESEND_SECONDS, UNCONFIRMED_BYTES
from fl_client.agent.state import (
    PartReceived,
    Publish,
    Reconnected,
    SendUpdate,
    Trained,
    UpdateStreamed,
)
from tests.fl_client.agent.agent_machine import (
    Machine,
    check,
    current,
    detail,
    metrics,
    selected,
    train,
    trained,
    working,
)

# sending


def test_an_update_is_sent_again_until_it_is_safe() -> None:
    machine = working(clients=(0,))
    machine.train(train(0))
    assert machine.of(SendUpdate) == [SendUpdate(0, 1)]
    assert machine.wait(100.0) == ()  # on its way
    machine.take(UpdateStreamed(0, 1, machine.now))
    assert machine.wait(2.9) == ()
    assert machine.wait(0.1) == (Publish(trained(train(0))), SendUpdate(0, 1, again=True))
    machine.take(UpdateStreamed(0, 1, machine.now))
    machine.receive(current(safe=(0,)))
    assert machine.wait(100.0) == ()


def test_while_others_are_confirmed_nothing_is_sent_again_but_not_for_ever() -> None:
    machine = working(clients=(0,))
    machine.take(Trained(train(0), trained(train(0)), machine.now))
    machine.take(UpdateStreamed(0, 1, machine.now))
    for others in range(1, int(RESEND_AT_MOST / 2)):
        machine.receive(current(safe=tuple(range(1, 1 + others))))
        assert machine.wait(2.0) == ()
    machine.receive(current(safe=tuple(range(1, 40))))
    assert machine.wait(2.0) == (Publish(trained(train(0))), SendUpdate(0, 1, again=True))


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
    machine.receive(current(safe=(0,)))
    assert machine.of(SendUpdate) == [SendUpdate(1, 1)]


def test_counts_are_sent_again_until_they_are_confirmed() -> None:
    machine = working(clients=(), testers=(0,))
    assert machine.test(check(0)) == (Publish(metrics(0)),)
    assert machine.wait(2.9) == ()
    assert machine.wait(0.1) == (Publish(metrics(0)),)
    machine.receive(current(measured=(0,)))
    assert machine.wait(100.0) == ()


def test_after_a_reconnect_everything_unconfirmed_is_sent_at_once() -> None:
    machine = working(clients=(0,), testers=(0,))
    machine.train(train(0))
    machine.test(check(0))
    assert machine.take(Reconnected(machine.now)) == (
        Publish(trained(train(0))),
        SendUpdate(0, 1),
        Publish(metrics(0)),
    )
    assert Machine().take(Reconnected(0.0)) == ()


def test_a_restarted_coordinator_gets_again_what_it_has_forgotten() -> None:
    machine = working(clients=(), testers=(0,))
    machine.test(check(0))
    machine.receive(current(measured=(0,)))
    machine.now += 3.0
    assert machine.receive(current(incarnation=2)) == (Publish(metrics(0)),)


def test_nothing_of_an_old_round_is_sent() -> None:
    machine = working(clients=(0,), testers=(0,))
    machine.train(train(0))
    machine.test(check(0))
    machine.receive(current(2), selected(2, clients=(1,)))
    machine.take(UpdateStreamed(0, 1, machine.now))
    machine.wait(100.0)
    assert machine.of(SendUpdate) == []
    assert machine.states == ["missing"]


def test_an_update_nobody_asked_for_is_not_sent() -> None:
    machine = working(clients=(1,), snapshots={0: {1}})
    assert machine.of(SendUpdate) == []
    assert machine.started == [("train", 1, None)]


# weights


def test_missing_weights_are_asked_for_again_and_again() -> None:
    machine = Machine()
    machine.receive(detail())
    machine.open()
    machine.receive(current(), selected())
    asked = [machine.now for _ in range(10) if "missing" in _states_after(machine)]
    assert asked == [103.0, 106.0, 109.0]


def _states_after(machine: Machine) -> list[str]:
    machine.wait(1.0)
    return machine.states


def test_weights_on_their_way_are_not_asked_for() -> None:
    machine = Machine()
    machine.receive(detail())
    machine.open()
    machine.receive(current(), selected())
    for _ in range(10):
        machine.wait(2.0)
        assert machine.actions == ()
        machine.take(PartReceived("run", 1, False, machine.now))


def test_a_board_with_nothing_to_do_does_not_ask_for_weights() -> None:
    machine = Machine()
    machine.receive(detail())
    machine.open()
    machine.receive(current(), selected(clients=(5,)))
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
    machine.receive(detail("other"))
    machine.open("other")
    machine.receive(TrainEnd(run="other", reason="finished"), detail())
    machine.open()
    assert machine.started == [("train", 0, None)]
