from __future__ import annotations

import hashlib
import logging
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.config import DataSection
from common.data.partition import partition, split, split_by_class
from common.errors import ConfigError, DataError
from common.rng import generator

BALANCED = np.arange(10_000) % 10


@st.composite
def tasks(draw: st.DrawFn) -> tuple[DataSection, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    clients = draw(st.integers(1, 12))
    min_size = draw(st.integers(2, 20))
    pool = clients * min_size + draw(st.integers(0, 500))
    data = DataSection(
        clients=clients,
        min_size=min_size,
        partition=draw(st.sampled_from(["iid", "dirichlet"])),
        alpha=draw(st.floats(min_value=0, exclude_min=True)),
    )
    labels = generator(draw(st.integers(0, 9)), "labels").integers(0, 7, pool)
    return data, labels


@given(tasks(), st.integers(0, 2**63))
def test_every_sample_has_exactly_one_client_and_every_client_enough(
    task: tuple[DataSection, np.ndarray[tuple[int], np.dtype[np.int64]]], seed: int
) -> None:
    data, labels = task
    parts = partition(data, labels, seed)
    assert len(parts) == data.clients
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))
    assert all(np.array_equal(part, np.sort(part)) for part in parts)
    assert min(map(len, parts)) >= data.min_size
    if data.partition == "iid":
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(st.integers(2, 300), st.floats(0.01, 0.99), st.integers(0, 99))
def test_a_split_gives_every_sample_to_one_of_two_parts(
    size: int, ratio: float, seed: int
) -> None:
    indices = np.arange(size) * 3
    train, test = split(indices, ratio, generator(seed, "split", 0))
    assert np.array_equal(np.sort(np.concatenate([train, test])), indices)
    assert min(len(train), len(test)) >= 1
    assert abs(len(train) - size * ratio) <= 1
    assert np.array_equal(train, np.sort(train))


def test_three_quarters_of_the_samples_train() -> None:
    train, test = split(np.arange(600), 0.75, generator(1, "split", 0))
    assert (len(train), len(test)) == (450, 150)
    assert not np.array_equal(train, np.arange(450))


def test_a_single_sample_cannot_be_split() -> None:
    with pytest.raises(DataError, match="1 samples cannot be split"):
        split(np.arange(1), 0.75, generator(1, "split", 0))


@given(st.integers(2, 300), st.integers(1, 20), st.floats(0.01, 0.99), st.integers(0, 99))
def test_a_split_by_class_keeps_the_share_of_every_class(
    size: int, kinds: int, ratio: float, seed: int
) -> None:
    indices = np.arange(size) * 3
    labels = generator(seed, "labels").integers(0, kinds, size)
    train, test = split_by_class(indices, labels, ratio, generator(seed, "split", 0))
    assert np.array_equal(np.sort(np.concatenate([train, test])), indices)
    assert np.array_equal(train, np.sort(train))
    assert np.array_equal(test, np.sort(test))
    assert min(len(train), len(test)) >= 1
    both, ours = (np.bincount(labels[part // 3], minlength=kinds) for part in (indices, train))
    assert np.abs(ours - both * ratio).max() <= 1
    if both.max() > 1:
        assert ((ours > 0) == (both > 0)).all()
        assert ((both - ours > 0) == (both > 1)).all()


def test_a_split_by_class_of_single_samples_has_two_parts_all_the_same() -> None:
    train, test = split_by_class(np.arange(4), np.arange(4), 0.75, generator(1, "split", 0))
    assert (len(train), len(test)) == (3, 1)


@pytest.mark.parametrize(
    ("kind", "digest"), [("iid", "fbfa446838ef081b"), ("dirichlet", "e3df582af87d29f5")]
)
def test_the_bits_of_a_partition_stay_the_same(
    kind: Literal["iid", "dirichlet"], digest: str
) -> None:
    parts = partition(DataSection(clients=20, partition=kind), BALANCED, 1)
    content = b"|".join(part.tobytes() for part in parts)
    assert hashlib.sha256(content).hexdigest()[:16] == digest


@pytest.mark.parametrize("kind", ["iid", "dirichlet"])
def test_the_same_seed_gives_the_same_partition_and_another_seed_another(
    kind: Literal["iid", "dirichlet"],
) -> None:
    data = DataSection(clients=5, partition=kind)
    one, same, other = (
        [part.tolist() for part in partition(data, BALANCED, seed)] for seed in (1, 1, 2)
    )
    assert one == same != other


def test_a_smaller_alpha_means_fewer_classes_per_client() -> None:
    def classes_for_half(alpha: float) -> float:
        parts = partition(DataSection(clients=20, alpha=alpha), BALANCED, 1)
        counts = [np.sort(np.bincount(BALANCED[part], minlength=10))[::-1] for part in parts]
        return float(np.mean([np.searchsorted(np.cumsum(c), c.sum() / 2) + 1 for c in counts]))

    assert classes_for_half(0.05) < classes_for_half(0.5) < classes_for_half(100.0)
    assert classes_for_half(1e9) >= 5


def test_equal_shares_have_nearly_equal_classes() -> None:
    parts = partition(DataSection(clients=10, partition="iid"), BALANCED, 1)
    assert all(np.bincount(BALANCED[part]).min() > 60 for part in parts)


def test_small_clients_get_samples_of_large_ones_when_no_draw_is_good(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    parts = partition(DataSection(clients=20, alpha=0.01, min_size=60), BALANCED[:2000], 1)
    assert min(map(len, parts)) >= 60
    assert "no draw in 1000 gave every client 60 samples" in caplog.text


def test_it_is_possible_to_ask_for_every_last_sample() -> None:
    parts = partition(DataSection(clients=20, alpha=0.1, min_size=100), BALANCED[:2000], 1)
    assert {len(part) for part in parts} == {100}


@pytest.mark.parametrize(
    ("data", "most"),
    [
        (DataSection(clients=1001, min_size=10), 1000),
        (DataSection(clients=5001, partition="iid"), 5000),
    ],
)
def test_more_clients_than_the_samples_can_serve_are_refused(
    data: DataSection, most: int
) -> None:
    with pytest.raises(ConfigError, match=rf"data.clients is {data.clients}; .* most {most}"):
        partition(data, BALANCED, 1)
    partition(DataSection(clients=most, partition="iid"), BALANCED, 1)


@st.composite
def natural_tasks(draw: st.DrawFn) -> tuple[DataSection, list[int]]:
    sizes = draw(st.lists(st.integers(0, 60), min_size=1, max_size=30))
    sizes.append(30)
    min_size = draw(st.integers(2, 30))
    enough = sum(size >= min_size for size in sizes)
    data = DataSection(
        dataset="shakespeare",
        partition="natural",
        clients=draw(st.integers(1, enough)),
        min_size=min_size,
        max_samples=draw(st.sampled_from([0, min_size, 40])),
    )
    return data, sizes


@given(natural_tasks(), st.integers(0, 2**63))
def test_each_client_has_samples_of_one_natural_client_that_is_large_enough(
    task: tuple[DataSection, list[int]], seed: int
) -> None:
    data, sizes = task
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    labels = np.arange(bounds[-1]) % 80
    parts = partition(data, labels, seed, bounds)
    assert len(parts) == data.clients
    owners = [set((np.searchsorted(bounds, part, side="right") - 1).tolist()) for part in parts]
    assert all(len(owner) == 1 for owner in owners)
    roles = [owner.pop() for owner in owners]
    assert roles == sorted(set(roles))
    for role, part in zip(roles, parts, strict=True):
        assert sizes[role] >= data.min_size
        assert len(part) == min(sizes[role], data.max_samples or sizes[role])
        assert np.array_equal(part, np.unique(part))
    again = partition(data, labels, seed, bounds)
    assert all(np.array_equal(one, other) for one, other in zip(parts, again, strict=True))


def test_more_clients_than_natural_ones_are_large_enough_are_refused() -> None:
    bounds = np.array([0, 10, 20, 25])
    data = DataSection(dataset="shakespeare", partition="natural", clients=3, min_size=6)
    with pytest.raises(
        ConfigError, match=r"data.clients is 3; expected at most 2, .* of the 3"
    ):
        partition(data, np.zeros(25, np.int64), 1, bounds)


def test_a_dataset_without_natural_clients_is_refused() -> None:
    data = DataSection(partition="natural", clients=3)
    with pytest.raises(ConfigError, match=r"'fmnist-mini' has no clients of its own"):
        partition(data, BALANCED, 1)


@pytest.mark.parametrize("kind", ["iid", "dirichlet", "classes", "ls"])
def test_no_client_keeps_more_samples_than_allowed(
    kind: Literal["iid", "dirichlet", "classes", "ls"], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    whole = partition(DataSection(clients=10, partition=kind), BALANCED, 1)
    capped = partition(DataSection(clients=10, partition=kind, max_samples=300), BALANCED, 1)
    for one, other in zip(whole, capped, strict=True):
        assert len(other) == min(len(one), 300)
        assert set(other.tolist()) <= set(one.tolist())
        assert np.array_equal(other, np.sort(other))
    left = 10_000 - sum(map(len, capped))
    assert f"{left} of 10000 samples are left over" in caplog.text


def test_samples_that_classes_cannot_divide_are_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    partition(DataSection(clients=3, partition="classes"), BALANCED, 1)
    assert "4000 of 10000 samples are left over" in caplog.text
    caplog.clear()
    partition(DataSection(clients=3, partition="iid", max_samples=9), BALANCED, 1)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.slow
def test_seventy_thousand_samples_are_divided_among_500_clients() -> None:
    parts = partition(DataSection(clients=500, alpha=0.1), np.arange(70_000) % 10, 1)
    assert sum(map(len, parts)) == 70_000
