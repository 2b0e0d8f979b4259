from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.config import DataSection
from common.data.assignment import Assignment, allot, rounded_shares, union_of
from common.errors import ConfigError, DataError
from common.rng import generator

CLASSES = 7
OFFICIAL, ALL = 1400, 1750


def labels_of(seed: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return generator(seed, "labels").integers(0, CLASSES, ALL)


def allotted(seed: int = 1, labels_seed: int = 1, **settings: Any) -> Assignment:
    data = DataSection(**{"clients": 10, **settings})
    return allot(data, labels_of(labels_seed), classes=CLASSES, official=OFFICIAL, seed=seed)


partitions = st.sampled_from(["iid", "dirichlet", "dirichlet-client", "qs"])
clients = st.integers(1, 40)
seeds = st.integers(0, 2**63)


@given(partitions, clients, seeds)
def test_the_official_test_set_is_what_all_test_with_and_nobody_trains_with(
    partition: str, clients: int, seed: int
) -> None:
    made = allotted(seed, partition=partition, clients=clients, test="official")
    assert np.array_equal(np.sort(np.concatenate(made.train)), np.arange(OFFICIAL))
    assert np.array_equal(np.sort(np.concatenate(made.test)), np.arange(OFFICIAL, ALL))
    sizes = [len(test) for test in made.test]
    assert max(sizes) - min(sizes) <= 1
    assert made.sizes().tolist() == [len(train) for train in made.train]


@given(partitions, clients, seeds)
def test_an_official_like_test_set_has_the_label_shares_of_the_training(
    partition: str, clients: int, seed: int
) -> None:
    made = allotted(seed, partition=partition, clients=clients, test="official-like")
    labels = labels_of(1)
    there = np.bincount(labels[OFFICIAL:], minlength=CLASSES)
    for train, test in zip(made.train, made.test, strict=True):
        assert len(np.unique(test)) == len(test) > 0
        assert test.min() >= OFFICIAL
        shares = np.bincount(labels[train], minlength=CLASSES) / len(train)
        counts = np.bincount(labels[test], minlength=CLASSES)
        wanted = np.minimum(shares * ((ALL - OFFICIAL) // clients), there)
        assert np.abs(counts - wanted).max() < 1


def test_more_clients_than_official_test_samples_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"data\.clients is 351, .* has only 350 samples"):
        allotted(clients=351, test="official", partition="iid")


def test_a_client_whose_classes_nobody_tests_is_named() -> None:
    labels = np.repeat([0, 1], [20, 10])  # the test set has only class 1
    data = DataSection(clients=2, test="official-like", partition="iid")
    with pytest.raises(DataError, match="has none of the classes of client 0"):
        allot(data, labels, classes=2, official=20, seed=1)


@given(
    seeds,
    st.floats(0.01, 0.5),
    st.floats(0.05, 1.0),
    st.sampled_from(["pool", "official"]),
)
def test_shared_samples_are_balanced_and_each_client_gets_some_behind_its_own(
    seed: int, share: float, given_share: float, test: Literal["pool", "official"]
) -> None:
    own = allotted(seed, test=test)
    made = allotted(seed, test=test, share=share, share_given=given_share)
    pool = np.concatenate(own.train)
    labels = labels_of(1)
    each = int(share * len(pool) / CLASSES + 1e-9)
    there = np.bincount(labels[pool], minlength=CLASSES)
    counts = np.bincount(labels[made.shared], minlength=CLASSES)
    assert counts.tolist() == np.minimum(there, each).tolist()
    assert set(made.shared) <= set(pool)
    for ours, before in zip(made.train, own.train, strict=True):
        assert np.array_equal(ours[: len(before)], before)
        got = ours[len(before) :]
        assert len(got) == len(set(got)) == int(given_share * len(made.shared) + 1e-9)
        assert set(got) <= set(made.shared)
    assert [test.tolist() for test in made.test] == [test.tolist() for test in own.test]


def test_owners_lose_what_is_shared_if_they_should() -> None:
    own = allotted(3)
    made = allotted(3, share=0.1, share_removed=True, share_given=0.5)
    count = len(made.shared) // 2
    for ours, before in zip(made.train, own.train, strict=True):
        assert set(ours[:-count]) == set(before) - set(made.shared)
    assert not np.array_equal(made.train[0][-count:], made.train[1][-count:])


def test_a_share_too_small_for_one_sample_of_each_class_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"data\.share is 0\.001; expected 0, or at least 0\."
    ):
        allotted(share=0.001)


def test_a_client_that_sharing_leaves_with_nothing_is_named() -> None:
    with pytest.raises(DataError, match=r"client \d+ has no samples left after sharing"):
        allotted(clients=30, share=0.99, share_given=0.0005, share_removed=True, min_size=2)


@given(seeds, st.integers(1, 2000), st.sampled_from(["pool", "official", "official-like"]))
def test_the_union_has_the_label_shares_of_all_test_sets(
    seed: int, wanted: int, test: str
) -> None:
    made, labels = allotted(seed, test=test), labels_of(1)
    everything = np.unique(np.concatenate(made.test))
    union = union_of(made, labels, wanted, seed)
    assert len(set(union)) == len(union) == min(wanted, len(everything))
    assert set(union) <= set(everything)
    counts = np.bincount(labels[union], minlength=CLASSES)
    shares = np.bincount(labels[everything], minlength=CLASSES) / len(everything)
    assert np.abs(counts - shares * len(union)).max() < 1
    assert np.array_equal(union, union_of(made, labels, wanted, seed))


@given(st.lists(st.integers(0, 1000), min_size=1).filter(any), st.integers(0, 10_000))
def test_shares_are_rounded_to_the_wanted_sum(weights: list[int], total: int) -> None:
    shares = rounded_shares(np.array(weights), total)
    assert shares.sum() == total
    exact = np.array(weights) * total / sum(weights)
    assert np.abs(shares - exact).max() < 1 + 1e-9
    assert not shares[np.array(weights) == 0].any()
