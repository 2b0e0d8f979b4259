"""The same as `test_interleavings.py`, with the real shells: real `Coordinator` and `Daemon`,
real files, real messages, on a broker in memory (see `tests/shells/`).

A run takes about a hundred times as long as one of the model, so there are fewer of them here.
"""

from __future__ import annotations

import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.memory_broker import Lost
from tests.model.parts import Setup
from tests.shells.world import Outcome, World
from tests.test_interleavings import (
    LONGEST_STORY,
    SECONDS,
    hasty_setups,
    least_updates,
    others_are_enough,
    patient_setups,
    stories,
)


@functools.cache
def undisturbed(setup: Setup) -> Outcome:
    with World(setup) as world:
        world.settle(SECONDS)
        assert world.server.finished
        return world.outcome()


def check_that_nothing_changed(setup: Setup, story: bytes, *, leftovers: bool) -> None:
    with World(setup, leftovers=leftovers) as world:
        world.disturb(story)
        world.settle(SECONDS)
        assert world.outcome() == undisturbed(setup)
        check_that_it_stays_finished(world)


def check_that_it_stays_finished(world: World) -> None:
    before = world.outcome()
    world.broker.restart("queues")
    for party in world.parties:
        party.crash()
    world.settle(10)
    after = world.outcome()
    assert (after.finished, after.model, after.lines) == (True, before.model, before.lines)


def check_that_it_ends(setup: Setup, story: bytes, gone: int | None) -> None:
    with World(setup) as world:
        world.disturb(story)
        if gone is not None:
            world.boards[gone % len(world.boards)].die_for_good()
        world.settle(SECONDS)
        outcome = world.outcome()
    trained = [line for line in outcome.lines if line["round"] > 0]
    assert [line["round"] for line in outcome.lines] == list(range(len(outcome.lines)))
    for line in trained:
        assert line["updates"] == len(line["clients"]) >= least_updates(setup)
    if gone is None or others_are_enough(setup, gone):
        assert outcome.finished
        assert len(trained) == setup.rounds


@settings(max_examples=6)
@given(patient_setups, stories, st.booleans())
def test_a_disturbed_run_ends_with_the_numbers_of_an_undisturbed_one(
    setup: Setup, story: bytes, leftovers: bool
) -> None:
    check_that_nothing_changed(setup, story, leftovers=leftovers)


@settings(max_examples=4)
@given(hasty_setups, stories, st.none() | st.integers(0, 2))
def test_an_impatient_run_always_ends_and_never_with_too_few_updates(
    setup: Setup, story: bytes, gone: int | None
) -> None:
    check_that_it_ends(setup, story, gone)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=40)
@given(patient_setups, st.binary(min_size=200, max_size=3 * LONGEST_STORY), st.booleans())
def test_many_more_disturbed_runs_end_with_the_numbers_of_an_undisturbed_one(
    setup: Setup, story: bytes, leftovers: bool
) -> None:
    check_that_nothing_changed(setup, story, leftovers=leftovers)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=20)
@given(
    hasty_setups,
    st.binary(min_size=200, max_size=3 * LONGEST_STORY),
    st.none() | st.integers(0, 2),
)
def test_many_more_impatient_runs_end(setup: Setup, story: bytes, gone: int | None) -> None:
    check_that_it_ends(setup, story, gone)


PARTIES = ("coordinator", "board-0", "board-1")


def calls_of(setup: Setup, name: str) -> int:
    """How often a party uses its link in an undisturbed run."""
    with World(setup) as world:
        world.settle(SECONDS)
        return world.party(name).link.operations


def check_kill_at(setup: Setup, name: str, call: int) -> None:
    with World(setup) as world:
        party = world.party(name)
        party.start()
        party.link.kill_after(call)
        world.settle(SECONDS)
        assert world.outcome() == undisturbed(setup), f"{name} killed at its call {call}"


@pytest.mark.parametrize("name", PARTIES)
def test_a_kill_at_some_call_of_the_link_changes_nothing(name: str) -> None:
    setup = Setup(coupled=True)
    for call in range(1, calls_of(setup, name), 23):
        check_kill_at(setup, name, call)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("name", PARTIES)
def test_a_kill_at_any_call_of_the_link_changes_nothing(name: str, coupled: bool) -> None:
    """Every second call, and with the other setting those between them."""
    setup = Setup(coupled=coupled)
    for call in range(1 + coupled, calls_of(setup, name), 2):
        check_kill_at(setup, name, call)


@pytest.mark.parametrize("stride", [19, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("lost", ["nothing", "queues", "everything"])
def test_a_broker_killed_at_any_moment_changes_nothing(lost: Lost, stride: int) -> None:
    setup = Setup()
    with World(setup) as world:
        world.settle(SECONDS)
        moves = world.server.moved
    for boundary in range(0, moves, stride):
        with World(setup) as world:
            world.run_until_quiet(lambda: world.server.moved == boundary)  # noqa: B023
            world.broker.restart(lost)
            world.settle(SECONDS)
            assert world.outcome() == undisturbed(setup), f"killed after {boundary} moves"


def test_an_undisturbed_run_aggregates_every_round_once_with_every_client() -> None:
    outcome = undisturbed(Setup())
    assert [(line["round"], line.get("clients")) for line in outcome.lines] == [
        (0, None),
        (1, [0, 1, 2, 3]),
        (2, [0, 1, 2, 3]),
    ]
    assert [line["round"] for line in outcome.counts] == [0, 1, 2]
    assert undisturbed(Setup(coupled=True)).model != outcome.model
