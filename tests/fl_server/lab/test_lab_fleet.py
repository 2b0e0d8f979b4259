"""A fleet's boards in a lab: their links, by the same model as in virtual time."""

from __future__ import annotations

import math
import socket
import time
from pathlib import Path

import pytest

from common.experiment.file import parse_experiment
from common.wire.messages import Info
from fl_server.fleet.file import boards_of
from fl_server.fleet.links import Link
from fl_server.lab.lab import LabBoard
from fl_server.lab.lab_fleet import LabFleet, ShapedLink
from fl_server.lab.relay import Relay
from fl_server.watch import facts
from tests.fl_server.fleet.fleets import MODEL, fleet_of, group

EXPERIMENT = parse_experiment(
    {"data": {"clients": 4}, "model": {"name": "dnn"}, "training": {"epochs": 2}}
)


def link_of(**network: object) -> Link:
    (board,) = boards_of(fleet_of(group(network=network)), [0])
    return Link(board, 1)


def connected(board: str) -> facts.BoardConnected:
    return facts.BoardConnected(f"board {board}", board)


def trains(board: str) -> facts.Info:
    return facts.Info(info=Info(run="r.1", round=1, client=0, board=board, state="training"))


def test_boards_are_started_with_their_clients_speed_and_memory() -> None:
    own = {"samples_per_second": 50.0, "memory": 1000}
    fleet = fleet_of(group("a", boards=2), group("b", workers=2, hardware=own))
    assert LabFleet(fleet, EXPERIMENT).boards == {
        "a-1": LabBoard((0,), 1, ("--speed", "100.0")),
        "a-2": LabBoard((1,), 1, ("--speed", "100.0")),
        "b-1": LabBoard((2, 3), 2, ("--speed", "50.0", "--memory", "500")),
    }


def test_a_link_is_perfect_until_the_run_begins() -> None:
    link = ShapedLink(link_of(latency=100.0))
    assert link.arrived(link.sent(5.0, MODEL, up=True), up=True) == 5.0


def test_bytes_take_as_long_as_in_virtual_time_from_the_beginning_of_the_run() -> None:
    link = ShapedLink(link_of(up=1.0, latency=100.0, outages=[[2.5, 4.0]]))
    link.began = 1000.0
    assert link.sent(1000.0, MODEL, up=True) == pytest.approx(1001.0)
    assert link.sent(1002.0, MODEL, up=True) == pytest.approx(1004.5)  # half, outage, half
    assert link.arrived(1001.0, up=True) == pytest.approx(1001.05)


def test_jitter_is_drawn_for_what_comes_after_a_pause_only() -> None:
    link = ShapedLink(link_of(jitter=1000.0))
    link.began = 0.0
    first = link.arrived(1.0, up=True) - 1.0
    close = link.arrived(1.0 + first / 2, up=True) - 1.0 - first / 2
    later = link.arrived(100.0, up=True) - 100.0
    assert close == pytest.approx(first)
    assert later != pytest.approx(first)


AWAY = {"away": [[0.0, 1000.0]]}


@pytest.mark.parametrize(
    ("presence", "last"), [({}, trains("a-1")), (AWAY, connected("a-2"))], ids=["job", "boards"]
)
def test_time_begins_with_the_first_job_or_with_all_boards_if_some_are_away(
    presence: dict[str, object], last: facts.Fact
) -> None:
    fleet = LabFleet(fleet_of(group("a", boards=2), group("b", presence=presence)), EXPERIMENT)
    relays = {name: Relay(1) for name in fleet.boards}
    try:
        for name, relay in relays.items():
            fleet.shape(name, relay)
        shapes = [
            relay.shape for relay in relays.values() if isinstance(relay.shape, ShapedLink)
        ]
        fleet.observe(connected("a-1"))
        fleet.observe(facts.RoundOpened(round=1, selected=(0,), testers=()))
        assert [shape.began for shape in shapes] == [math.inf] * 3
        fleet.observe(last)
        assert len({shape.began for shape in shapes}) == 1
        assert shapes[0].began <= time.monotonic()
    finally:
        fleet.close()
        for relay in relays.values():
            relay.close()


def test_a_board_that_is_away_cannot_connect_until_it_is_back() -> None:
    with socket.create_server(("127.0.0.1", 0)) as broker:
        fleet = LabFleet(fleet_of(group(presence={"away": [[0.0, 0.3]]})), EXPERIMENT)
        relay = Relay(broker.getsockname()[1])
        try:
            fleet.shape("a-1", relay)
            assert not answers(relay, broker)
            fleet.observe(trains("a-1"))
            end = time.monotonic() + 30
            while not answers(relay, broker):
                assert time.monotonic() < end
        finally:
            fleet.close()
            relay.close()


def answers(relay: Relay, broker: socket.socket) -> bool:
    """Whether a connection reaches the broker."""
    broker.settimeout(0.2)
    with socket.create_connection(("127.0.0.1", relay.port), 10):
        try:
            broker.accept()[0].close()
        except TimeoutError:
            return False
        return True


def test_a_machine_that_is_too_slow_is_told_so_in_one_sentence(tmp_path: Path) -> None:
    fleet = LabFleet(fleet_of(group()), EXPERIMENT)
    in_time = facts.Trained(board="a-1", client=0, round=1, seconds=2.0, samples=90)
    fleet.observe(in_time)
    assert fleet.too_slow() == ""
    fleet.observe(facts.Trained(board="a-1", client=3, round=1, seconds=9.0, samples=90))
    assert fleet.too_slow() == (
        "this machine is too slow for the fleet: 1 of its trainings took longer than they "
        "should, such as client 3 on board a-1 9.00 s instead of 1.90 s; lower the speeds, or "
        "have fewer boards"
    )
