"""Which clients train in a round."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.config import Experiment, ExperimentSection, SelectionSection
from common.values import replace
from fl_server.coordinator.conductor import policy_of
from fl_server.rounds import machine as rounds
from fl_server.rounds.selection import (
    chances_of,
    draw,
    enough,
    is_overdue,
    not_given_up,
    share_of,
)
from fl_server.rounds.state import Board, Gathering, Policy, State, Tick, Working

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


def with_boards(boards: Mapping[str, Board]) -> State:
    """Boards that have announced themselves in this order."""
    owned = {client: name for name, board in boards.items() for client in board.clients}
    return State(Gathering(0.0), boards=boards, owned=owned)


in_two_orders = ids.flatmap(lambda some: st.tuples(st.just(some), st.permutations(some)))


@given(in_two_orders, st.integers(0, 9), st.integers(1, 99))
def test_a_draw_depends_only_on_seed_round_and_candidates(
    orders: tuple[list[int], list[int]], seed: int, round_number: int
) -> None:
    first, again = (
        draw(order, share_of(20, 0.3), seed=seed, round_number=round_number) for order in orders
    )
    assert first == again == tuple(sorted(first))
    assert set(first) <= set(orders[0])
    assert len(first) == min(6, len(orders[0]))


def test_rounds_and_seeds_draw_differently() -> None:
    draws = {
        draw(range(30), share_of(30, 0.2), seed=seed, round_number=round_number)
        for seed in range(5)
        for round_number in range(1, 5)
    }
    assert len(draws) == 20


def test_everybody_trains_at_rate_one() -> None:
    assert draw({3, 1, 2}, share_of(3, 1.0), seed=1, round_number=1) == (1, 2, 3)


def test_somebody_trains_at_any_rate() -> None:
    assert len(draw(range(5), share_of(5, 0.01), seed=1, round_number=1)) == 1


def test_the_rate_is_of_the_population_not_of_those_who_are_there() -> None:
    assert draw({1, 2}, share_of(8, 0.5), seed=1, round_number=1) == (1, 2)


def test_all_candidates_are_drawn_if_they_are_too_few() -> None:
    assert draw({5, 4}, 3, seed=1, round_number=1) == (4, 5)
    assert draw((), 3, seed=1, round_number=1) == ()


def test_clients_with_the_same_chance_are_drawn_as_ever() -> None:
    even = chances_of(range(30), gamma=0.0, seed=1)
    draws = [
        draw(range(30), 4, seed=1, round_number=round_number, chances=even)
        for round_number in (1, 2, 3)
    ]
    assert draws == [(7, 16, 17, 27), (4, 9, 17, 23), (6, 11, 18, 24)]


@given(
    st.lists(st.integers(0, 99), min_size=1, unique=True),
    st.floats(0, exclude_min=True),
    st.integers(0, 9),
)
def test_chances_are_positive_add_up_to_one_and_come_from_the_seed(
    participants: list[int], gamma: float, seed: int
) -> None:
    chances, again = (chances_of(participants, gamma=gamma, seed=seed) for _ in range(2))
    assert chances == again
    assert list(chances) == participants
    assert min(chances.values()) >= 0.99e-6 / len(participants)
    assert sum(chances.values()) == pytest.approx(1)


@given(in_two_orders, st.floats(0, exclude_min=True), st.integers(0, 9), st.integers(1, 99))
def test_a_skewed_draw_depends_only_on_seed_round_and_candidates(
    orders: tuple[list[int], list[int]], gamma: float, seed: int, round_number: int
) -> None:
    chances = chances_of(range(51), gamma=gamma, seed=seed)
    first, again = (
        draw(order, 6, seed=seed, round_number=round_number, chances=chances)
        for order in orders
    )
    assert first == again == tuple(sorted(set(first)))
    assert set(first) <= set(orders[0])
    assert len(first) == min(6, len(orders[0]))


def test_how_often_a_client_is_drawn_follows_its_chance() -> None:
    chances = chances_of(range(10), gamma=1.0, seed=3)
    drawn = Counter(
        draw(
            range(10),
            share_of(10, 0.1),
            seed=3,
            round_number=round_number,
            chances=chances,
        )[0]
        for round_number in range(1, 3001)
    )
    assert max(chances.values()) > 0.2
    for client, chance in chances.items():
        assert drawn[client] / 3000 == pytest.approx(chance, abs=0.05)


def test_a_small_gamma_selects_few_clients_and_a_large_one_all() -> None:
    def often(gamma: float) -> float:
        chances = chances_of(range(100), gamma=gamma, seed=1)
        return sum(sorted(chances.values())[-10:])

    assert often(0.01) > 0.95 > often(0.1) > often(1.0) > often(10.0) > often(1e9)
    assert often(1e9) == pytest.approx(0.1, abs=0.01)


def test_chances_of_clients_that_are_not_there_do_not_count() -> None:
    chances = {0: 0.999998, 1: 1e-6, 2: 1e-6}
    draws = {
        draw([1, 2], 1, seed=1, round_number=round_number, chances=chances)
        for round_number in range(20)
    }
    assert draws == {(1,), (2,)}


def test_an_experiments_gamma_decides_who_is_in_its_rounds() -> None:
    selection = SelectionSection(gamma=0.1, rate=0.25, participants="2-11")
    experiment = Experiment(experiment=ExperimentSection(seed=5), selection=selection)
    policy = policy_of("run", experiment)
    assert policy.chances == chances_of(range(2, 12), gamma=0.1, seed=5)
    boards = {"a": Board("i1", (1, 1), tuple(range(2, 12)))}

    def selected(policy: Policy) -> list[tuple[int, ...]]:
        starts = (replace(with_boards(boards), done=done) for done in range(5))
        phases = [rounds.step(policy, start, Tick(0.0))[0].phase for start in starts]
        return [phase.selected for phase in phases if isinstance(phase, Working)]

    drawn = selected(policy)
    assert drawn == [
        draw(range(2, 12), 2, seed=5, round_number=round_number, chances=policy.chances)
        for round_number in range(1, 6)
    ]
    assert drawn != selected(dataclasses.replace(policy, chances={}))


@pytest.mark.parametrize(("minimum", "needed"), [(1, 1), (3, 3), (4, 4), (7, 4)])
def test_a_round_needs_min_updates_but_not_more_than_are_selected(
    minimum: int, needed: int
) -> None:
    assert enough(dataclasses.replace(POLICY, min_updates=minimum)) == needed


def state() -> State:
    boards = {
        "here": Board("i1", (1, 1), (0, 1)),
        "lost": Board("i2", (1, 1), (2, 3), lost_at=100.0),
    }
    return with_boards(boards)


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
    both = with_boards(boards)
    assert both.owner(2) == "new"
    assert both.owner(3) == "lost"
    assert both.owner(9) is None
    assert both.registered() == {0, 1, 2, 3}
    assert both.registered(connected=True) == {0, 1, 2}
