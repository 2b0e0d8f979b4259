"""The round machine in virtual time: whom it waits for, whom it drops, and when."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fl_server.fleet.forecast import play
from fl_server.fleet.kinds import Fleet
from fl_server.rounds.policy import Policy
from tests.fl_server.fleet.fleets import MODEL, fleet_of, group, timeline_of

SLOW = {"samples_per_second": 25.0}


def rounds_of(
    fleet: Fleet, clients: int, **settings: Any
) -> list[tuple[float, tuple[int, ...], tuple[int, ...]]]:
    """When each round of training closed, who was used and who was dropped."""
    wanted = {"rounds": 2, "evaluate_every": 100, "start_with": clients, **settings}
    policy = Policy(run="r.1", seed=3, participants=tuple(range(clients)), **wanted)
    closed = play(policy, timeline_of(fleet, clients), MODEL)
    return [(round(at, 2), c.used, c.dropped) for at, c in closed if c.training]


def test_a_round_lasts_as_long_as_its_slowest_board() -> None:
    fleet = fleet_of(group("fast"), group("slow", hardware=SLOW))
    # round 1 has a test as well, of a second or of four
    assert rounds_of(fleet, 2) == [(45.0, (0, 1), ()), (87.0, (0, 1), ())]


def test_a_deadline_drops_the_slow_at_that_very_time() -> None:
    fleet = fleet_of(group("fast", boards=2), group("slow", hardware=SLOW))
    found = rounds_of(fleet, 3, deadline=30.0)
    assert found == [(30.0, (0, 1), (2,)), (60.0, (0, 1), (2,))]


def test_a_board_that_leaves_is_waited_for_as_long_as_grace() -> None:
    gone = {"away": [[5.0, 1e9]]}
    fleet = fleet_of(group("there"), group("gone", presence=gone))
    found = rounds_of(fleet, 2, grace=20.0)
    assert [(used, dropped) for _, used, dropped in found] == [((0,), (1,)), ((0,), ())]
    assert found[0][0] == 25.0


def test_a_board_that_comes_back_in_time_is_used() -> None:
    away = {"away": [[5.0, 18.0]]}
    fleet = fleet_of(group("there"), group("away", presence=away))
    assert rounds_of(fleet, 2, grace=20.0, rounds=1)[0][1:] == ((0, 1), ())


def test_long_rounds_lose_nobody_to_silence() -> None:
    fleet = fleet_of(group("a", boards=2, hardware={"samples_per_second": 1.0}))
    assert rounds_of(fleet, 2, grace=5.0, rounds=1)[0][1:] == ((0, 1), ())


def test_too_few_updates_call_others() -> None:
    fleet = fleet_of(group("fast", boards=3), group("slow", boards=3, hardware=SLOW))
    found = rounds_of(fleet, 6, rate=0.5, deadline=30.0, min_updates=3, rounds=4)
    assert all(len(used) >= 3 for _, used, _ in found)


def test_of_too_many_the_first_count_and_a_round_waits_for_no_more() -> None:
    fleet = fleet_of(group("fast", boards=3), group("slow", boards=3, hardware=SLOW))
    found = rounds_of(fleet, 6, rate=0.5, extra=3, rounds=3)
    assert [(used, dropped) for _, used, dropped in found] == 3 * [((0, 1, 2), (3, 4, 5))]
    assert [at for at, _, _ in found][1:] == [57.0, 69.0]  # 12 s each, once tests are through


def test_a_fleet_that_never_comes_back_ends_the_run() -> None:
    fleet = fleet_of(group("a", presence={"away": [[5.0, 1e9]]}))
    assert rounds_of(fleet, 1, grace=math.inf, rounds=1)[0][0] == pytest.approx(1e9, rel=0.01)


def test_the_same_seed_gives_the_same_times() -> None:
    fleet = fleet_of(
        group(
            "a", boards=4, network={"jitter": 300.0, "outage_every": 30.0, "outage_seconds": 9}
        )
    )
    first, second = (rounds_of(fleet, 4, rounds=5) for _ in range(2))
    assert first == second
    other = fleet_of(*[group("a", boards=4, network={"jitter": 300.0})], seed=2)
    assert rounds_of(other, 4, rounds=5) != first


def test_time_never_goes_back_whatever_is_drawn() -> None:
    fleet = fleet_of(
        group("a", boards=30, presence={"on": 50.0, "off": 7.0}),
        group("b", boards=10, network={"outage_every": 20.0, "outage_seconds": 3.0}),
    )
    times = [at for at, _, _ in rounds_of(fleet, 40, rounds=30, start_with=30)]
    assert len(times) == 30
    assert times == sorted(times)
