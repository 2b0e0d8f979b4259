"""Secured runs with the real shells on a broker in memory: whoever is killed, and whenever.

The world is that of `test_shell_interleavings.py`. What a secured run ends with is compared to
an undisturbed run that is not secured, with exact sums.
"""

from __future__ import annotations

import dataclasses
import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.memory_broker import Lost
from tests.model.parts import Setup
from tests.shells.world import Outcome, World
from tests.test_interleavings import (
    SECONDS,
    hasty_secured_setups,
    others_are_enough,
    secured_setups,
    stories,
)

SETUP = Setup(threshold=0.6, coupled=True)
PARTIES = ("coordinator", "board-0", "board-1")


@functools.cache
def unsecured(setup: Setup) -> Outcome:
    with World(dataclasses.replace(setup, threshold=0.0, exact=True)) as world:
        world.settle(SECONDS)
        return world.outcome()


def check_that_it_is_like_an_unsecured_one(setup: Setup, outcome: Outcome) -> None:
    plain = unsecured(setup)
    assert outcome.finished
    assert (outcome.model, outcome.states) == (plain.model, plain.states)
    assert outcome.counts == plain.counts
    for line, wanted in zip(outcome.lines, plain.lines, strict=True):
        loss, wanted_loss = line.get("train_loss"), wanted.get("train_loss")
        assert loss == (None if wanted_loss is None else pytest.approx(wanted_loss))
        same = {"train_loss": None}
        assert {**line, **same} == {**wanted, **same}


def test_an_undisturbed_secured_run_ends_with_the_model_of_an_unsecured_one() -> None:
    with World(SETUP) as world:
        world.settle(SECONDS)
        check_that_it_is_like_an_unsecured_one(SETUP, world.outcome())


@settings(max_examples=6)
@given(secured_setups, stories, st.booleans())
def test_a_disturbed_secured_run_ends_with_the_model_of_an_unsecured_one(
    setup: Setup, story: bytes, leftovers: bool
) -> None:
    setup = dataclasses.replace(setup, local=False)
    with World(setup, leftovers=leftovers) as world:
        world.disturb(story)
        world.settle(SECONDS)
        check_that_it_is_like_an_unsecured_one(setup, world.outcome())


@settings(max_examples=4)
@given(hasty_secured_setups, stories, st.none() | st.integers(0, 2))
def test_an_impatient_secured_run_ends_and_opens_no_sum_of_too_few(
    setup: Setup, story: bytes, gone: int | None
) -> None:
    setup = dataclasses.replace(setup, local=False)
    with World(setup) as world:
        world.disturb(story)
        if gone is not None:
            world.boards[gone % len(world.boards)].die_for_good()
        world.settle(SECONDS)
        outcome = world.outcome()
    for line in outcome.lines:
        assert line["updates"] == len(line.get("clients", ())) != 1 if line["round"] else True
    if gone is None or others_are_enough(setup, gone):
        assert outcome.finished


def calls_of(setup: Setup, name: str) -> int:
    with World(setup) as world:
        world.settle(SECONDS)
        return world.party(name).link.operations


def check_kills(name: str, first: int, stride: int) -> None:
    for call in range(first, calls_of(SETUP, name), stride):
        with World(SETUP) as world:
            party = world.party(name)
            party.start()
            party.link.kill_after(call)
            world.settle(SECONDS)
            check_that_it_is_like_an_unsecured_one(SETUP, world.outcome())


@pytest.mark.parametrize("name", PARTIES)
def test_a_kill_at_some_call_of_the_link_changes_nothing(name: str) -> None:
    check_kills(name, 1, 29)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", PARTIES)
def test_a_kill_at_any_call_of_the_link_changes_nothing(name: str) -> None:
    check_kills(name, 2, 2)


@pytest.mark.parametrize("lost", ["nothing", "queues", "everything"])
def test_a_broker_killed_at_some_moment_changes_nothing(lost: Lost) -> None:
    with World(SETUP) as world:
        world.settle(SECONDS)
        moves = world.server.moved
    for boundary in range(0, moves, 23):
        with World(SETUP) as world:
            world.run_until_quiet(lambda: world.server.moved == boundary)  # noqa: B023
            world.broker.restart(lost)
            world.settle(SECONDS)
            check_that_it_is_like_an_unsecured_one(SETUP, world.outcome())
