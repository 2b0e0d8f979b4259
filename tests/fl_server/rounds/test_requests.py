from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from common.disk.recording import Recorder, Start, read
from common.values import replace
from common.wire.messages import CurrentRound
from fl_server.cli.replay import ROUNDS
from fl_server.rounds import machine as rounds
from fl_server.rounds.control import control_state, has_stopped
from fl_server.rounds.requests import Request, Requested
from fl_server.rounds.state import Gathering, Open, Publish, Working
from tests.fl_server.rounds.round_machine import A, B, Machine, begun, board


def request(machine: Machine, wanted: Request) -> None:
    machine.take(Requested(wanted, machine.now))


def test_an_open_round_closes_normally_and_no_other_is_opened() -> None:
    machine = begun()
    request(machine, "pause")
    assert machine.notes == {"paused": "pauses after round 1"}
    assert control_state(machine.state) == "pausing"
    machine.do_round(1)
    assert machine.notes == {"paused": "paused after round 1"}
    assert control_state(machine.state) == "paused"
    machine.wait(1000.0)
    assert machine.is_in(Gathering)
    assert not machine.of(Open)


def test_a_paused_run_goes_on_with_the_next_round() -> None:
    machine = begun()
    request(machine, "pause")
    machine.do_round(1)
    request(machine, "run")
    assert machine.notes == {"resumed": "goes on"}
    assert machine.of(Open) == [Open(2, (0, 1, 2, 3), (0, 1, 2, 3))]


def test_who_takes_a_pause_back_in_time_does_not_notice_it() -> None:
    machine = begun()
    request(machine, "pause")
    request(machine, "run")
    machine.do_round(1)
    assert machine.working.round_number == 2


def test_a_request_that_is_repeated_is_reported_once() -> None:
    machine = begun()
    request(machine, "pause")
    request(machine, "pause")
    assert machine.actions == ()


def test_a_run_that_is_paused_before_it_begins_does_not_begin() -> None:
    machine = Machine()
    request(machine, "pause")
    assert machine.notes == {"paused": "paused before round 1"}
    machine.hear(board("a", A), board("b", B))
    assert machine.is_in(Gathering)
    request(machine, "run")
    assert machine.is_in(Working)


def test_a_run_stops_when_its_round_has_ended() -> None:
    machine = begun()
    request(machine, "stop")
    assert machine.notes == {"stopping": "stops after round 1"}
    assert not has_stopped(machine.state)
    machine.do_round(1)
    assert has_stopped(machine.state)


def test_the_last_round_ends_the_run_even_if_it_was_to_pause() -> None:
    machine = begun(dataclasses.replace(begun().policy, rounds=1))
    machine.do_round(1)
    request(machine, "pause")
    machine.measure(0, 1, 2, 3, round_number=2)
    machine.aggregate(2)
    assert control_state(machine.state) == ""
    assert not has_stopped(machine.state)


def test_while_paused_boards_are_told_that_nothing_more_is_wanted() -> None:
    machine = begun()
    request(machine, "pause")
    machine.do_round(1)
    assert machine.said.safe == machine.said.measured == (0, 1, 2, 3)
    assert machine.said.round == 1
    machine.wait(10.0)
    assert not machine.of(Publish)
    machine.wait(30.0)  # a message can be lost
    assert isinstance(machine.of(Publish)[0].message, CurrentRound)


def test_a_restarted_coordinator_stays_paused_until_it_is_resumed() -> None:
    state = rounds.resume(
        incarnation=2, done=1, accepted={}, opened=None, safe=frozenset(), now=0.0
    )
    machine = Machine(state=state)
    request(machine, "pause")
    machine.hear(board("a", A), board("b", B))
    assert machine.is_in(Gathering)
    request(machine, "run")
    assert machine.working.round_number == 2


@pytest.mark.parametrize("wanted", ["pause", "stop"])
def test_a_request_can_be_recorded_and_replayed(wanted: Request, tmp_path: Path) -> None:
    machine = begun()
    recorder = Recorder(tmp_path / "x", machine.policy, replace(machine.state, request=wanted))
    recorder.write(Requested(wanted, 3.0))
    recorder.close()
    start, event = (found for _, found in read(tmp_path / "x", ROUNDS))
    assert event == Requested(wanted, 3.0)
    assert isinstance(start, Start)
    assert start.state == replace(machine.state, request=wanted)
