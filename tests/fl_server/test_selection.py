"""Which clients train in a round."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fl_server.round_state import Board, Gathering, Policy, State, Working
from fl_server.selection import choose, draw, enough, is_overdue, not_given_up

POLICY = Policy(
    run="run",
    seed=1,
    rounds=3,
    participants=tuple(range(8)),
    start_with=8,
    rate=0.5,
    grace=60.0,
    deadline=100.0,
)

ids = st.lists(st.integers(0, 50), min_size=1, unique=True)
in_two_orders = ids.flatmap(lambda some: st.tuples(st.just(some), st.permutations(some)))


@given(in_two_orders, st.integers(0, 9), st.integers(1, 99))
def test_a_draw_depends_only_on_seed_round_and_candidates(
    orders: tuple[list[int], list[int]], seed: int, number: int
) -> None:
    first, again = (
        choose(order, population=20, rate=0.3, seed=seed, number=number) for order in orders
    )
    assert first == again == tuple(sorted(first))
    assert set(first) <= set(orders[0])
    assert len(first) == min(6, len(orders[0]))


def test_rounds_and_seeds_draw_differently() -> None:
    draws = {
        choose(range(30), population=30, rate=0.2, seed=seed, number=number)
        for seed in range(5)
        for number in range(1, 5)
    }
    assert len(draws) == 20


def test_everybody_trains_at_rate_one() -> None:
    assert choose({3, 1, 2}, population=3, rate=1.0, seed=1, number=1) == (1, 2, 3)


def test_somebody_trains_at_any_rate() -> None:
    assert len(choose(range(5), population=5, rate=0.01, seed=1, number=1)) == 1


def test_the_rate_is_of_the_population_not_of_those_who_are_there() -> None:
    assert choose({1, 2}, population=8, rate=0.5, seed=1, number=1) == (1, 2)


def test_all_candidates_are_drawn_if_they_are_too_few() -> None:
    assert draw({5, 4}, 3, seed=1, number=1) == (4, 5)
    assert draw((), 3, seed=1, number=1) == ()


@pytest.mark.parametrize(("minimum", "needed"), [(1, 1), (3, 3), (4, 4), (7, 4)])
def test_a_round_needs_min_updates_but_not_more_than_are_selected(
    minimum: int, needed: int
) -> None:
    assert enough(replace(POLICY, min_updates=minimum)) == needed


def state() -> State:
    boards = {
        "here": Board("i1", (1, 1), (0, 1)),
        "lost": Board("i2", (1, 1), (2, 3), lost_at=100.0),
    }
    return State(Gathering(0.0), boards=boards)


def test_a_lost_board_is_given_up_after_grace() -> None:
    assert not_given_up(POLICY, state(), 159.9) == {0, 1, 2, 3}
    assert not_given_up(POLICY, state(), 160.0) == {0, 1}


@pytest.mark.parametrize(
    ("client", "now", "overdue"),
    [
        (0, 149.0, False),  # its board is there
        (0, 150.0, True),  # the deadline
        (2, 149.0, False),  # its board is lost for 49 seconds
        (4, 109.9, False),  # no board has it yet
        (4, 110.0, True),
        (1, 119.9, False),  # it failed at 60
        (1, 120.0, True),
    ],
)
def test_a_client_is_overdue_when_lost_failed_unknown_or_late(
    client: int, now: float, overdue: bool
) -> None:
    phase = Working(1, (0, 1, 2, 3, 4), (), 50.0, failed={1: 60.0})
    assert is_overdue(POLICY, state(), phase, client, now) is overdue


def test_a_client_of_two_boards_belongs_to_the_one_that_is_there() -> None:
    boards = {**state().boards, "new": Board("i3", (1, 1), (2,))}
    both = State(Gathering(0.0), boards=boards)
    assert both.owner(2) == "new"
    assert both.owner(3) == "lost"
    assert both.owner(9) is None
    assert both.registered() == {0, 1, 2, 3}
    assert both.registered(connected=True) == {0, 1, 2}
