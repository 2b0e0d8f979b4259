"""When things happen on boards, in virtual time."""

from __future__ import annotations

import math

import pytest

from fl_server.fleet.file import boards_of
from fl_server.fleet.happenings import Arrived, Came, Left, Opening
from fl_server.fleet.links import Link
from fl_server.fleet.timeline import Timeline
from tests.fl_server.fleet.fleets import MODEL, fleet_of, group, timeline_of


def arrivals(line: Timeline, until: float = 1e6) -> list[tuple[float, str, int]]:
    found: list[tuple[float, str, int]] = []
    while line.next_time() < until:
        now, happening = line.pop()
        if isinstance(happening, Arrived):
            found.append((round(now, 2), happening.job.kind, happening.job.client))
    return found


def opened(line: Timeline, *, trainers: tuple[int, ...], now: float = 0.0) -> Timeline:
    line.open(Opening(1, trainers, (), MODEL), now)
    return line


def test_an_update_takes_its_download_its_training_and_its_upload() -> None:
    line = opened(timeline_of(fleet_of(group()), 1), trainers=(0,))
    assert arrivals(line) == [(12.0, "train", 0)]


def test_a_board_does_one_thing_after_another_unless_it_has_more_workers() -> None:
    one = opened(timeline_of(fleet_of(group()), 2), trainers=(0, 1))
    two = opened(timeline_of(fleet_of(group(workers=2)), 2), trainers=(0, 1))
    assert arrivals(one) == [(12.0, "train", 0), (22.0, "train", 1)]
    assert arrivals(two) == [(12.0, "train", 0), (13.0, "train", 1)]  # one link for both


def test_tests_wait_for_the_trainings_of_their_board() -> None:
    line = timeline_of(fleet_of(group()), 1)
    line.open(Opening(1, (0,), (0,), MODEL), 0.0)
    kinds = [kind for _, kind, _ in arrivals(line)]
    assert kinds == ["train", "test"]


def test_latency_is_half_on_the_way_there_and_half_on_the_way_back() -> None:
    line = opened(timeline_of(fleet_of(group(network={"latency": 500.0})), 1), trainers=(0,))
    assert arrivals(line) == [(12.5, "train", 0)]


def test_jitter_is_drawn_the_same_every_time() -> None:
    fleet = fleet_of(group(network={"jitter": 900.0}))
    first, second = (opened(timeline_of(fleet, 1), trainers=(0,)) for _ in range(2))
    found = arrivals(first)
    assert found == arrivals(second)
    assert 12.0 < found[0][0] < 13.8


def test_an_outage_holds_up_what_is_on_its_way() -> None:
    fleet = fleet_of(group(network={"outages": [[11.5, 20.0]]}))
    assert arrivals(opened(timeline_of(fleet, 1), trainers=(0,))) == [(20.5, "train", 0)]


def test_drawn_outages_are_as_long_and_as_frequent_as_their_means() -> None:
    fleet = fleet_of(group(network={"outage_every": 100.0, "outage_seconds": 10.0}))
    link = Link(boards_of(fleet, [0])[0], seed=1)
    now, away, count = 0.0, 0.0, 0
    while now < 200_000:
        start = link.next_gap(now)
        now = link.flows_from(start)
        away, count = away + now - start, count + 1
    assert away / count == pytest.approx(10.0, rel=0.1)
    assert now / count == pytest.approx(110.0, rel=0.1)


def test_loss_makes_a_long_link_slower_than_its_rate() -> None:
    good, bad = (
        Link(boards_of(fleet_of(group(network=network)), [0])[0], seed=1)
        for network in (
            {"up": 50.0, "latency": 100.0},
            {"up": 50.0, "latency": 100.0, "loss": 0.01},
        )
    )
    assert good.up == 50e6
    assert bad.up == pytest.approx(1448 * 8 / 0.1 * 1.22 / 0.1)


def test_an_absent_board_comes_when_it_is_there_and_leaves_again() -> None:
    fleet = fleet_of(group(presence={"away": [[0.0, 3.0], [5.0, 6.0]]}))
    line, found = timeline_of(fleet, 1), []
    while line.next_time() < math.inf:
        now, happening = line.pop()
        found.append((now, type(happening)))
    assert found == [(3.0, Came), (5.0, Left), (6.0, Came)]


def test_a_duty_cycle_begins_anywhere_and_has_its_share() -> None:
    fleet = fleet_of(group(boards=200, presence={"on": 30.0, "off": 10.0}))
    links = [Link(board, seed=1) for board in boards_of(fleet, range(200))]
    there = sum(link.flows_from(1000.0) == 1000.0 for link in links)
    assert there == pytest.approx(150, abs=20)


def test_a_job_of_a_closed_round_is_given_up_and_its_energy_is_spent() -> None:
    line = opened(timeline_of(fleet_of(group()), 1), trainers=(0,))
    line.open(Opening(2, (), (), MODEL), 6.0)  # after five of its ten seconds
    assert arrivals(line) == []
    assert line.spent.joules[0] == pytest.approx(5 * 5.0 + 2 * 2.0)  # and two downloads


def test_it_goes_on_if_its_update_may_still_be_used() -> None:
    line = opened(timeline_of(fleet_of(group()), 1), trainers=(0,))
    line.open(Opening(2, (0,), (), MODEL, started={0: 1}), 6.0)
    assert arrivals(line) == [(12.0, "train", 0)]


def test_who_runs_out_of_time_ends_early_with_a_share() -> None:
    line = timeline_of(fleet_of(group()), 1)
    line.open(Opening(1, (0,), (), MODEL, until=5.0), 0.0)
    while line.next_time() < math.inf:
        _, happening = line.pop()
        if isinstance(happening, Arrived):
            assert happening.job.share == pytest.approx(0.4)
            assert happening.job.end == 5.0
            return
    pytest.fail("nothing arrived")
