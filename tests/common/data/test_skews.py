"""What every recipe promises, over random settings and class sizes."""

from __future__ import annotations

import logging
from typing import Literal

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from common.config import DataSection
from common.data.partition import Indices, partition
from common.data.skews import RECIPES
from common.errors import ConfigError
from common.rng import generator

BALANCED = np.arange(10_000) % 10
SEEDS = st.integers(0, 2**63)
ALPHAS = st.sampled_from([1e-9, 0.001, 0.01, 0.1, 1.0, 1e9]) | st.floats(0, exclude_min=True)

Sinkhorn = Literal["ls", "qs", "lsqs"]


def pool(size: int, kinds: int, seed: int) -> Indices:
    """Labels with classes of different sizes."""
    return np.sort(generator(seed, "labels").integers(0, kinds, size))


def table(parts: list[Indices], labels: Indices) -> Indices:
    """Samples per client and class, after checking that the parts are disjoint."""
    together = np.concatenate(parts)
    assert len(np.unique(together)) == len(together)
    assert all(np.array_equal(part, np.sort(part)) for part in parts)
    return np.stack([np.bincount(labels[part], minlength=labels.max() + 1) for part in parts])


@given(st.integers(1, 40), st.integers(1, 12), st.data(), SEEDS)
def test_each_client_has_exactly_so_many_classes_and_as_many_samples_of_each(
    clients: int, kinds: int, data: st.DataObject, seed: int
) -> None:
    each = data.draw(st.integers(1, kinds))
    sizes = data.draw(st.lists(st.integers(80, 120), min_size=kinds, max_size=kinds))
    labels = np.repeat(np.arange(kinds), sizes)
    settings = DataSection(clients=clients, partition="classes", classes_per_client=each)
    counts = table(partition(settings, labels, seed), labels)
    assert ((counts > 0).sum(1) == each).all()
    owners = (counts > 0).sum(0)
    assert owners.max() - owners.min() <= 1
    share = counts.max()
    assert set(counts.ravel().tolist()) <= {0, share}
    assert share == (np.array(sizes)[owners > 0] // owners[owners > 0]).min()


@pytest.mark.parametrize(("clients", "each"), [(100, 1), (100, 5), (20, 2), (5, 2), (10, 10)])
def test_few_classes_use_every_sample_when_they_divide_equally(clients: int, each: int) -> None:
    data = DataSection(clients=clients, partition="classes", classes_per_client=each)
    assert table(partition(data, BALANCED, 1), BALANCED).sum() == 10_000


@pytest.mark.parametrize("seed", range(6))
def test_a_class_without_owner_limits_nobody(seed: int) -> None:
    labels = np.repeat([0, 1], [80, 81])
    data = DataSection(clients=1, partition="classes", classes_per_client=1)
    assert table(partition(data, labels, seed), labels).tolist() in ([[80, 0]], [[0, 81]])


def test_it_is_said_how_many_samples_are_left_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    data = DataSection(clients=3, partition="classes", classes_per_client=2)
    assert table(partition(data, BALANCED, 1), BALANCED).sum() == 6_000
    assert "4000 of 10000 samples are left over" in caplog.text


def test_more_classes_per_client_than_there_are_are_refused() -> None:
    data = DataSection(partition="classes", classes_per_client=11)
    with pytest.raises(ConfigError, match=r"classes_per_client is 11; expected at most 10"):
        partition(data, BALANCED, 1)


@pytest.mark.parametrize(("rare", "each"), [(2, 2), (5, 1)])
def test_more_clients_than_a_class_has_samples_for_are_refused(rare: int, each: int) -> None:
    labels = np.repeat([0, 1], [100, rare])
    data = DataSection(clients=6, partition="classes", classes_per_client=each)
    with pytest.raises(ConfigError, match=rf"share a class with {rare} samples"):
        partition(data, labels, 1)


@given(st.integers(1, 60), st.integers(0, 900), st.integers(1, 12), ALPHAS, SEEDS)
def test_clients_that_draw_for_themselves_have_equal_sizes_and_use_everything(
    clients: int, more: int, kinds: int, alpha: float, seed: int
) -> None:
    labels = pool(2 * clients + more, kinds, seed)
    data = DataSection(clients=clients, partition="dirichlet-client", alpha=alpha)
    sizes = table(partition(data, labels, seed), labels).sum(1)
    assert sizes.sum() == len(labels)
    assert sizes.max() - sizes.min() <= 1


def test_a_tiny_alpha_leaves_one_class_to_nearly_every_client() -> None:
    data = DataSection(clients=100, partition="dirichlet-client", alpha=0.001)
    counts = table(partition(data, BALANCED, 1), BALANCED)
    assert set(counts.sum(1).tolist()) == {100}
    assert (counts > 0).sum(1).mean() < 1.2


def test_a_huge_alpha_gives_every_client_the_shares_of_the_dataset() -> None:
    labels = np.repeat([0, 1, 2], [1000, 2000, 5000])
    data = DataSection(clients=4, partition="dirichlet-client", alpha=1e9)
    counts = table(partition(data, labels, 1), labels)
    assert np.abs(counts - [250, 500, 1250]).max() < 120


@given(
    st.sampled_from(["ls", "qs", "lsqs"]),
    st.integers(1, 40),
    st.integers(1, 12),
    st.floats(0.1, 1e9),
    SEEDS,
)
def test_balanced_tables_use_everything_and_keep_the_sizes(
    kind: Sinkhorn, clients: int, kinds: int, alpha: float, seed: int
) -> None:
    labels = pool(30 * clients + 50, kinds, seed)
    data = DataSection(clients=clients, partition=kind, alpha=alpha)
    try:
        parts = partition(data, labels, seed)
    except ConfigError as error:
        assert "larger data.alpha" in str(error)  # noqa: PT017 (loud is allowed, wrong is not)
        assume(False)
    counts = table(parts, labels)
    sizes = counts.sum(1)
    assert sizes.sum() == len(labels)
    assert sizes.min() >= (2 if kind == "ls" else data.min_size)
    if kind == "ls":
        assert np.abs(sizes - len(labels) / clients).max() <= kinds + 1


@given(st.sampled_from(["ls", "qs", "lsqs"]), st.integers(1, 30), ALPHAS, SEEDS)
def test_any_alpha_gives_a_whole_partition_or_a_clear_error(
    kind: Sinkhorn, clients: int, alpha: float, seed: int
) -> None:
    labels = pool(10 * clients + 20, 5, seed)
    data = DataSection(clients=clients, partition=kind, alpha=alpha)
    try:
        counts = table(partition(data, labels, seed), labels)
    except ConfigError as error:
        assert kind != "qs"
        assert "larger data.alpha" in str(error)  # noqa: PT017 (an error is one of two ends)
    else:
        assert counts.sum() == len(labels)


def test_label_shares_that_no_scaling_fits_are_refused() -> None:
    data = DataSection(clients=100, partition="ls", alpha=0.001)
    with pytest.raises(
        ConfigError,
        match=r"'ls' and data.alpha is 0.001, but .*100 clients still miss .* 2000 iter",
    ):
        partition(data, np.arange(60_000) % 10, 1)


def test_only_sizes_are_skewed_in_qs() -> None:
    labels = np.repeat([0, 1, 2], [2000, 3000, 5000])
    counts = table(partition(DataSection(clients=8, partition="qs"), labels, 1), labels)
    sizes = counts.sum(1)
    assert sizes.max() > 3 * np.median(sizes)
    assert np.abs(counts - sizes[:, None] * [0.2, 0.3, 0.5]).max() < 2


def test_labels_and_sizes_are_skewed_in_lsqs() -> None:
    counts = table(partition(DataSection(clients=8, partition="lsqs"), BALANCED, 1), BALANCED)
    sizes = counts.sum(1)
    assert sizes.max() > 3 * np.median(sizes)
    assert (counts.max(1) / sizes).mean() > 0.25


@pytest.mark.parametrize("kind", ["qs", "lsqs"])
def test_skewed_sizes_can_use_every_last_sample(kind: Sinkhorn) -> None:
    data = DataSection(clients=100, partition=kind, alpha=1.0, min_size=100)
    assert {len(part) for part in partition(data, BALANCED, 1)} == {100}
    with pytest.raises(ConfigError, match=r"data.clients is 101; expected at most 100"):
        partition(DataSection(clients=101, partition=kind, min_size=100), BALANCED, 1)


@pytest.mark.parametrize("kind", sorted(RECIPES))
def test_a_recipe_gives_the_same_for_the_same_seed_only(kind: Literal["ls"]) -> None:
    data = DataSection(clients=7, partition=kind)
    one, same, other = (
        [part.tolist() for part in partition(data, BALANCED, seed)] for seed in (1, 1, 2)
    )
    assert one == same != other
