"""Runs over sites, with the real shells on brokers in memory: whatever fails, and in whatever
order things happen, they end with the bits of a flat run (see `tests/shells/sites.py`)."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.parts import Setup
from tests.shells.sites import Sites, SitesWorld
from tests.shells.world import Outcome
from tests.test_interleavings import SECONDS, stories

BOARDS = ((0, 1), (2,), (3, 4), (5,))
SITES = (((0, 1), (2, 3)), ((0, 1, 2, 3),), ((0, 1),), ((0,), (1,), (2, 3)))
places = st.builds(
    Sites,
    st.builds(
        Setup,
        boards=st.just(BOARDS),
        rounds=st.just(2),
        coupled=st.booleans(),
        rate=st.sampled_from((1.0, 0.5)),
    ),
    st.sampled_from(SITES),
)


@functools.cache
def flat(setup: Setup) -> Outcome:
    with SitesWorld(Sites(setup, ())) as world:
        world.settle(SECONDS)
        assert world.server.finished
        return world.outcome()


@pytest.mark.parametrize("sites", SITES)
def test_a_run_over_sites_ends_with_the_numbers_of_a_flat_one(
    sites: tuple[tuple[int, ...], ...],
) -> None:
    setup = Setup(boards=BOARDS, rounds=2)
    with SitesWorld(Sites(setup, sites)) as world:
        world.settle(SECONDS)
        assert world.outcome() == flat(setup)


def check_that_nothing_changed(of: Sites, story: bytes) -> None:
    with SitesWorld(of) as world:
        world.disturb(story)
        world.settle(SECONDS)
        assert world.outcome() == flat(of.setup)


@settings(max_examples=8)
@given(places, stories)
def test_a_disturbed_run_over_sites_ends_with_the_numbers_of_a_flat_one(
    of: Sites, story: bytes
) -> None:
    check_that_nothing_changed(of, story)


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(max_examples=60)
@given(places, st.binary(min_size=200, max_size=900))
def test_many_more_disturbed_runs_over_sites_end_with_the_numbers_of_a_flat_one(
    of: Sites, story: bytes
) -> None:
    check_that_nothing_changed(of, story)
