from __future__ import annotations

import itertools
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.data.rebalance import (
    Rebalance,
    choose,
    effective_samples,
    rebalanced_counts,
    target_of,
)
from common.data.rebalance_file import rebalanced_set
from common.data.samples import Samples
from common.errors import ConfigError
from common.rng import generator

STATISTICS = ["mean", "median", "max", "min", "secmin"]
counts_lists = st.lists(st.integers(0, 60), min_size=1, max_size=12).filter(any)
rules = st.builds(
    Rebalance,
    scope=st.sampled_from(["client", "all"]),
    statistic=st.sampled_from([*STATISTICS, "number"]),
    number=st.integers(1, 80),
    augmentation=st.sampled_from(["five_step", "autoaugment", "duplicate"]),
)


def samples_with(counts: list[int]) -> Samples:
    """Random images, no two of them alike."""
    rng = generator(sum(counts), "images")
    labels = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    images = rng.integers(0, 256, (len(labels), 1, 6, 6), np.uint8)
    return Samples((images,), labels)


@pytest.mark.parametrize(
    ("scope", "statistic", "target"),
    [
        # of the client's 10, 20, 60 and 60
        ("client", "mean", 38),  # 37.5
        ("client", "median", 40),
        ("client", "max", 60),
        ("client", "min", 10),
        ("client", "secmin", 20),
        # of all clients' 150, 40, 60 and 100, over its four classes
        ("all", "mean", 22),  # 21.875
        ("all", "median", 20),
        ("all", "max", 38),  # 37.5
        ("all", "min", 10),
        ("all", "secmin", 15),
    ],
)
def test_the_target_is_the_statistic_of_the_papers(
    scope: Literal["client", "all"],
    statistic: Literal["mean", "median", "max", "min", "secmin"],
    target: int,
) -> None:
    counts, sizes = np.array([0, 10, 60, 0, 20, 60]), np.array([150, 40, 60, 100])
    rule = Rebalance(scope=scope, statistic=statistic)
    assert target_of(rule, counts, sizes) == target


def test_the_target_is_at_least_one_and_may_be_a_number() -> None:
    counts, sizes = np.array([1, 1, 1, 1, 1]), np.array([5, 1])
    assert target_of(Rebalance(scope="all", statistic="secmin"), counts, sizes) == 1
    assert target_of(Rebalance(scope="all", statistic="mean"), counts, np.array([1, 1])) == 1
    assert target_of(Rebalance(statistic="number", number=9), counts, sizes) == 9
    assert target_of(Rebalance(statistic="secmin"), np.array([0, 7]), sizes) == 7
    with pytest.raises(ConfigError, match="rebalancing number is 0"):
        Rebalance(statistic="number")


@given(rules, counts_lists, st.lists(st.integers(1, 500), min_size=1), st.integers(0, 2**63))
def test_a_rebalanced_set_has_the_target_of_each_class_there_is(
    rule: Rebalance, counts: list[int], sizes: list[int], seed: int
) -> None:
    train, own = samples_with(counts), np.array(counts)
    target = target_of(rule, own, np.array(sizes))
    made = rebalanced_set(train, target, rule, generator(seed, "x"))
    found = np.bincount(made.targets, minlength=len(counts))
    assert found.tolist() == rebalanced_counts(own, target).tolist()
    assert len(made) == len(made.inputs[0]) == target * np.count_nonzero(own)
    again = rebalanced_set(train, target, rule, generator(seed, "x"))
    assert np.array_equal(made.inputs[0], again.inputs[0])


@given(counts_lists, st.integers(1, 80), st.integers(0, 2**63))
def test_originals_are_kept_or_left_out_and_only_small_classes_are_copied(
    counts: list[int], target: int, seed: int
) -> None:
    train = samples_with(counts)
    choice = choose(train.targets, target, generator(seed, "x"))
    assert len(set(choice.originals)) == len(choice.originals)
    assert len(choice.originals) == effective_samples(np.array(counts), target)
    for label, count in enumerate(counts):
        kept = choice.originals[train.targets[choice.originals] == label]
        copied = choice.copied[train.targets[choice.copied] == label]
        assert len(kept) == min(count, target)
        assert len(copied) == (target - count if 0 < count < target else 0)


@given(
    st.integers(1, 40),
    st.lists(st.booleans(), min_size=1, max_size=10).filter(any),
    st.sampled_from(STATISTICS),
    st.integers(0, 2**63),
)
def test_a_client_with_equal_counts_gets_a_permutation_of_its_own_samples(
    count: int,
    held: list[bool],
    statistic: Literal["mean", "median", "max", "min", "secmin"],
    seed: int,
) -> None:
    counts = [count * has for has in held]
    train, rule = samples_with(counts), Rebalance(statistic=statistic)
    target = target_of(rule, np.array(counts), np.array([1]))
    assert target == count
    assert effective_samples(np.array(counts), target) == len(train)
    made = rebalanced_set(train, target, rule, generator(seed, "x"))
    ours = sorted(
        (int(y), x.tobytes()) for x, y in zip(made.inputs[0], made.targets, strict=True)
    )
    own = sorted(
        (int(y), x.tobytes()) for x, y in zip(train.inputs[0], train.targets, strict=True)
    )
    assert ours == own


def test_different_rules_have_different_keys() -> None:
    rules = itertools.product(
        ("client", "all"),
        ("mean", "median", "max", "min", "secmin", "number"),
        (5, 6),
        ("five_step", "autoaugment", "duplicate"),
    )
    keys = {Rebalance(*rule).key for rule in rules}  # type: ignore[arg-type]
    assert len(keys) == (2 * 5 + 2) * 3
    assert Rebalance().key == "client-mean-five_step"
