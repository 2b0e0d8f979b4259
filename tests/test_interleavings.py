"""Whatever is lost, repeated, late or killed: the run ends, and with the same numbers.

The world is in `tests/model/`. Hypothesis writes the story of a disturbed run as bytes; then
the faults stop, and what must hold is checked.
"""

from __future__ import annotations

import dataclasses
import functools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.model.parts import Setup, digest
from tests.model.world import Outcome, World

SECONDS = 240  # in which a run must end after the faults
LONGEST_STORY = 300
every_boundary = pytest.param(1, marks=pytest.mark.slow)

patient_setups = st.builds(
    Setup,
    boards=st.sampled_from((((0, 1), (2, 3)), ((0,), (1,), (2,)), ((0, 1, 2), (3,)))),
    rounds=st.sampled_from((2, 3)),
    workers=st.sampled_from((1, 2)),
    coupled=st.booleans(),
    rate=st.sampled_from((1.0, 0.5)),
    evaluate_every=st.sampled_from((1, 2)),
    local=st.booleans(),
)
secured_setups = st.builds(
    dataclasses.replace,
    patient_setups.filter(lambda setup: len(setup.clients) * setup.rate >= 3),
    threshold=st.sampled_from((0.51, 0.6, 1.0)),
)
hasty_setups = st.builds(
    dataclasses.replace,
    patient_setups,
    grace=st.sampled_from((0.0, 2.0, 20.0)),
    deadline=st.sampled_from((float("inf"), 5.0, 60.0)),
    min_updates=st.sampled_from((1, 2, 3)),
    start_with=st.sampled_from((None, 1, 2)),
    extra=st.sampled_from((0, 1)),
)
buffered_setups = st.builds(
    dataclasses.replace,
    patient_setups,
    rounds=st.sampled_from((2, 5)),
    coupled=st.just(False),  # such algorithms are refused
    local=st.just(False),
    grace=st.sampled_from((float("inf"), 2.0, 20.0)),
    buffer=st.sampled_from((1, 2, 3)),
    max_staleness=st.sampled_from((0, 1, 3)),
    start_with=st.sampled_from((None, 1)),
)
hasty_secured_setups = st.builds(
    dataclasses.replace,
    secured_setups,
    grace=st.sampled_from((0.0, 2.0, 20.0)),
    deadline=st.sampled_from((float("inf"), 5.0, 60.0)),
    min_updates=st.sampled_from((1, 2, 3)),
    start_with=st.sampled_from((None, 3)),
)
# long enough to reach into the last round; Hypothesis prefers short ones
stories = st.binary(min_size=80, max_size=LONGEST_STORY)


@functools.cache
def undisturbed(setup: Setup) -> Outcome:
    world = World(setup)
    world.settle(SECONDS)
    assert world.outcome().finished
    return world.outcome()


def check_that_nothing_changed(setup: Setup, story: bytes, *, leftovers: bool) -> None:
    world = World(setup, leftovers=leftovers)
    world.disturb(story)
    world.settle(SECONDS)
    assert world.outcome() == undisturbed(setup)
    check_that_it_stays_finished(world)


def check_that_it_stays_finished(world: World) -> None:
    before = world.outcome()
    world.kill_broker(forget=False)
    for party in world.parties:
        party.crash()
    world.settle(10)
    after = world.outcome()
    assert (after.finished, after.model, after.lines) == (True, before.model, before.lines)


def check_that_it_ends(setup: Setup, story: bytes, gone: int | None) -> None:
    world = World(setup)
    world.disturb(story)
    if gone is not None:
        world.boards[gone % len(world.boards)].die_for_good()
    world.settle(SECONDS)
    outcome = world.outcome()
    numbers = [round_number for round_number, _, _ in outcome.aggregated]
    assert numbers == list(range(1, len(numbers) + 1))
    for _, used, _ in outcome.aggregated:
        assert len(used) >= least_updates(setup)
        if setup.extra:
            assert len(used) <= max(1, round(setup.rate * len(setup.clients)))
    if gone is None or others_are_enough(setup, gone):
        assert outcome.finished
        assert len(numbers) == setup.rounds


def check_that_the_order_gives_the_model(
    setup: Setup, story: bytes, gone: int | None = None
) -> None:
    """Each model follows from the one before, and from who trained which model for it."""
    world = World(setup)
    world.disturb(story)
    if gone is not None:
        world.boards[gone % len(world.boards)].die_for_good()
    world.settle(SECONDS)
    outcome, models = world.outcome(), ["first"]
    for (number, used, model), started in zip(
        outcome.aggregated, world.coordinator.disk.started, strict=True
    ):
        assert number == len(models)
        assert set(used) == set(started)
        assert all(0 <= number - at <= setup.max_staleness for at in started.values())
        updates = sorted(
            (client, digest("update", (client, at, "nothing", models[at - 1])))
            for client, at in started.items()
        )
        models.append(digest("model", models[-1], updates))
        assert model == models[-1]
    if gone is None or others_are_enough(setup, gone):
        assert outcome.finished
        assert len(models) == setup.rounds + 1


def least_updates(setup: Setup) -> int:
    return min(setup.min_updates, max(1, round(setup.rate * len(setup.clients))))


def others_are_enough(setup: Setup, gone: int) -> bool:
    """To start at all, and to fill a round."""
    lost = len(setup.boards[gone % len(setup.boards)])
    there = len(setup.clients) - lost
    least = max(least_updates(setup), 3 if setup.threshold else 1)
    return there >= max(least, setup.start_with or len(setup.clients))


# the broker loses the experiment before boards that wait for it have reported their data
LOST_EXPERIMENT = bytes.fromhex(
    "1f06844bf2da85e1925c1879dfc350beb4fe7f686c78125e4c09e4cf7a2c031ebc945a6aa7e6"
    "626a4db1185000a33149f5b4f2d61a847f848e55807b85e9cc5d18595e7a6f77f4e9456c3a86"
    "1b3570abb8355ecc6ad8168645264ec92f3f98748c609bf2381a9b1b9365e9415db0b6e4c69c"
    "a315988d1f19989118ecc14c0e0b55f98838b29553a221c647fb05bc4aa69de56e52985ec102"
    "ca0d61d4550d61122aec468ac58b0719757faf468594bac21cd92cd165e2d0cdb9d628b346ac"
    "d7ea565a17721f8cf131bf6b42be824b5cc3a6280d397f476d5684d0090f2ca0f5fea690e3d8"
    "4c62216a16083014e1ec392b972ec988"
)


@settings(max_examples=40)
@given(patient_setups, stories, st.booleans())
@example(Setup(boards=((0,), (1,), (2,)), rounds=2, local=True), LOST_EXPERIMENT, False)
def test_a_disturbed_run_ends_with_the_numbers_of_an_undisturbed_one(
    setup: Setup, story: bytes, leftovers: bool
) -> None:
    check_that_nothing_changed(setup, story, leftovers=leftovers)


@settings(max_examples=40)
@given(secured_setups, stories, st.booleans())
def test_a_disturbed_secured_run_ends_with_the_numbers_of_an_unsecured_one(
    setup: Setup, story: bytes, leftovers: bool
) -> None:
    world = World(setup, leftovers=leftovers)
    world.disturb(story)
    world.settle(SECONDS)
    assert world.outcome().finished
    check_that_it_is_like_an_unsecured_one(setup, world.outcome())
    check_that_it_stays_finished(world)


def check_that_it_is_like_an_unsecured_one(setup: Setup, outcome: Outcome) -> None:
    plain = undisturbed(dataclasses.replace(setup, threshold=0.0))
    assert (outcome.model, outcome.aggregated) == (plain.model, plain.aggregated)
    assert outcome.lines == plain.lines


# The board of a client who has shared its secrets dies; those who have not are enough for the
# next round.
DESERTED = bytes.fromhex(
    "00000000000000000000000000000020000000fa0000000000000000000000000000000000000001"
    "6f000001f70000000000000100000001b80000010001000100010000001500000000000000004d02"
    "00000068006d0000000000000000000000010a000001000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000000000000000000000000500687600"
)


@settings(max_examples=40)
@example(
    Setup(
        boards=((0, 1, 2), (3,)),
        grace=0.0,
        local=True,
        min_updates=2,
        rounds=2,
        start_with=3,
        threshold=0.51,
    ),
    DESERTED,
    1,
)
@given(hasty_secured_setups, stories, st.none() | st.integers(0, 2))
def test_an_impatient_secured_run_ends_and_opens_no_sum_of_too_few(
    setup: Setup, story: bytes, gone: int | None
) -> None:
    world = World(setup)
    world.disturb(story)
    if gone is not None:
        world.boards[gone % len(world.boards)].die_for_good()
    world.settle(SECONDS)
    outcome = world.outcome()
    numbers = [round_number for round_number, _, _ in outcome.aggregated]
    assert numbers == list(range(1, len(numbers) + 1))
    for _, used, _ in outcome.aggregated:
        assert len(used) == 0 or len(used) >= 2  # the threshold of three clients
    if gone is None or others_are_enough(setup, gone):
        assert outcome.finished


@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["coordinator", "board-0", "board-1"])
def test_a_restart_at_any_action_boundary_of_a_secured_run_changes_nothing(
    name: str, stride: int
) -> None:
    setup = Setup(threshold=0.6)
    for boundary in range(0, moves_of(setup, name), stride):
        world = World(setup)
        world.run_until_quiet(lambda: world.moved[name] == boundary)  # noqa: B023 - runs now
        next(party for party in world.parties if party.name == name).crash()
        world.settle(SECONDS)
        check_that_it_is_like_an_unsecured_one(setup, world.outcome())


@settings(max_examples=25)
@given(hasty_setups, stories, st.none() | st.integers(0, 2))
def test_an_impatient_run_always_ends_and_never_with_too_few_updates(
    setup: Setup, story: bytes, gone: int | None
) -> None:
    check_that_it_ends(setup, story, gone)


@settings(max_examples=25)
@given(buffered_setups, stories, st.none() | st.integers(0, 2))
def test_a_buffered_run_ends_with_the_model_that_its_order_gives(
    setup: Setup, story: bytes, gone: int | None
) -> None:
    if gone is not None:
        setup = dataclasses.replace(setup, grace=20.0)
    check_that_the_order_gives_the_model(setup, story, gone)


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(max_examples=150)
@given(buffered_setups, st.binary(min_size=200, max_size=3 * LONGEST_STORY))
def test_many_more_buffered_runs_end_with_the_model_that_their_order_gives(
    setup: Setup, story: bytes
) -> None:
    check_that_the_order_gives_the_model(setup, story)


@pytest.mark.parametrize("stride", [5, every_boundary])
@pytest.mark.parametrize("name", ["coordinator", "board-0"])
def test_a_buffered_run_survives_a_restart_at_any_action_boundary(
    name: str, stride: int
) -> None:
    setup = Setup(buffer=2, rounds=3)
    for boundary in range(0, moves_of(setup, name), stride):
        world = World(setup)
        world.run_until_quiet(lambda: world.moved[name] == boundary)  # noqa: B023 - runs now
        next(party for party in world.parties if party.name == name).crash()
        world.settle(SECONDS)
        assert world.outcome().finished, f"killed after {boundary} moves"


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(max_examples=200)
@given(patient_setups, st.binary(min_size=200, max_size=3 * LONGEST_STORY), st.booleans())
def test_many_more_disturbed_runs_end_with_the_numbers_of_an_undisturbed_one(
    setup: Setup, story: bytes, leftovers: bool
) -> None:
    check_that_nothing_changed(setup, story, leftovers=leftovers)


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(max_examples=150)
@given(
    hasty_setups,
    st.binary(min_size=200, max_size=3 * LONGEST_STORY),
    st.none() | st.integers(0, 2),
)
def test_many_more_impatient_runs_end(setup: Setup, story: bytes, gone: int | None) -> None:
    check_that_it_ends(setup, story, gone)


def moves_of(setup: Setup, name: str) -> int:
    world = World(setup)
    world.settle(SECONDS)
    return world.moved[name]


@pytest.mark.parametrize("stride", [5, every_boundary])
@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("name", ["coordinator", "board-0", "board-1"])
def test_a_restart_at_any_action_boundary_changes_nothing(
    name: str, coupled: bool, stride: int
) -> None:
    check_restarts(Setup(coupled=coupled), name, stride)


@pytest.mark.parametrize("stride", [5, every_boundary])
@pytest.mark.parametrize("name", ["coordinator", "board-0"])
def test_nor_does_one_where_only_boards_have_the_data(name: str, stride: int) -> None:
    check_restarts(Setup(local=True, rounds=1), name, stride)


def check_restarts(setup: Setup, name: str, stride: int) -> None:
    for boundary in range(0, moves_of(setup, name), stride):
        world = World(setup)
        world.run_until_quiet(lambda: world.moved[name] == boundary)  # noqa: B023 - runs now
        next(party for party in world.parties if party.name == name).crash()
        world.settle(SECONDS)
        assert world.outcome() == undisturbed(setup), f"killed after {boundary} moves"


@pytest.mark.parametrize("stride", [5, every_boundary])
@pytest.mark.parametrize("forget", [False, True])
def test_a_broker_killed_at_any_moment_changes_nothing(forget: bool, stride: int) -> None:
    setup = Setup()
    for boundary in range(0, moves_of(setup, "coordinator"), stride):
        world = World(setup)
        world.run_until_quiet(lambda: world.moved["coordinator"] == boundary)  # noqa: B023
        world.kill_broker(forget=forget)
        world.settle(SECONDS)
        assert world.outcome() == undisturbed(setup), f"killed after {boundary} moves"


def test_an_undisturbed_run_aggregates_every_round_once_with_everybody() -> None:
    outcome = undisturbed(Setup())
    assert [(round_number, used) for round_number, used, _ in outcome.aggregated] == [
        (1, (0, 1, 2, 3)),
        (2, (0, 1, 2, 3)),
    ]
    assert {
        round_number: [c for c, _ in line] for round_number, line in outcome.lines.items()
    } == {
        0: [0, 1, 2, 3],
        1: [0, 1, 2, 3],
        2: [0, 1, 2, 3],
    }


def test_numbers_depend_on_what_a_client_went_on_from() -> None:
    assert undisturbed(Setup()).model != undisturbed(Setup(boards=((0, 1), (2,)))).model
    assert undisturbed(Setup(rate=0.5)).states != undisturbed(Setup()).states
