from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.config import DataSection
from common.data.assignment import Assignment
from common.data.datasets import Dataset, Windows, load_dataset
from common.data.datasets.registry import ENTRIES
from common.data.datasets.shakespeare import ALPHABET, windows_of
from common.data.shards import assignment_of
from common.data.windows import Spans, can_be_split, held_back, sides, split_apart
from common.errors import ConfigError, DataError
from common.rng import generator
from tests.common.data.datasets.test_real_datasets import need

TEXTS = sorted(name for name, entry in ENTRIES.items() if len(entry.info.shape) == 1)
PARTITIONS = ["natural", "iid", "classes", "dirichlet", "dirichlet-client", "ls", "qs", "lsqs"]


def made_up() -> Dataset:
    """Eight roles who say letters at random, between 400 and 1,800 of them."""
    lines = {
        ("play", str(role)): [
            "".join(ALPHABET[i] for i in generator(1, "text", role, line).integers(60, 66, 65))
            for line in range(6 + 3 * role)
        ]
        for role in range(8)
    }
    pool = windows_of(lines)
    return Dataset(
        "shakespeare", (pool.images,), pool.labels, 80, len(pool.labels), pool.natural
    )


def leaked(dataset: Dataset, allotment: Assignment) -> int:
    """How many test answers stand inside training windows, of whichever client."""
    assert isinstance(dataset.inputs[0], Windows)
    starts, width = dataset.inputs[0].starts, dataset.inputs[0].width
    begun = np.sort(starts[np.concatenate(allotment.train)])
    answers = starts[np.concatenate(allotment.test)] + width
    first, last = (np.searchsorted(begun, answers - back, "left") for back in (width, -1))
    return int(np.count_nonzero(last > first))


def remembered(dataset: Dataset, allotment: Assignment, memory: int = 12) -> float:
    """The share of test answers found by looking up what came before them, client by client."""
    right, total = 0, 0
    for train, test in zip(allotment.train, allotment.test, strict=True):
        seen = {}
        for window, answer in zip(
            dataset.inputs[0][train], dataset.targets[train], strict=True
        ):
            whole = bytes(window) + bytes([answer])
            for end in range(memory, len(whole)):
                seen[whole[end - memory : end]] = whole[end]
        for window, answer in zip(dataset.inputs[0][test], dataset.targets[test], strict=True):
            right += seen.get(bytes(window[-memory:])) == answer
        total += len(test)
    return right / total


def data_of(kind: str, **settings: Any) -> DataSection:
    return DataSection(
        **{
            "dataset": "shakespeare",
            "partition": kind,
            "clients": 3,
            "classes_per_client": 2,
            "alpha": 5.0,
            "train_ratio": 0.8,
            **settings,
        }
    )


@pytest.mark.parametrize("kind", PARTITIONS)
@pytest.mark.parametrize("max_samples", [0, 450])
def test_no_test_answer_stands_in_anybodys_training_windows(
    kind: str, max_samples: int
) -> None:
    dataset = made_up()
    data = data_of(kind, max_samples=max_samples, share=0.1)
    allotment = assignment_of(data, dataset, 1)
    assert leaked(dataset, allotment) == 0
    assert remembered(dataset, allotment) < 0.02


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("kind", ["natural", "iid"])
def test_no_answer_of_a_real_text_leaks(name: str, kind: str) -> None:
    need(name)
    dataset = load_dataset(name)
    data = data_of(kind, dataset=name, clients=20, min_size=2000, max_samples=2000)
    allotment = assignment_of(data, dataset, 1)
    assert leaked(dataset, allotment) == 0
    assert remembered(dataset, allotment) < 0.05


@pytest.mark.parametrize("kind", ["natural", "iid"])
def test_no_answer_that_is_held_back_stands_in_a_window_that_trains(kind: str) -> None:
    dataset = made_up()
    text = dataset.inputs[0]
    assert isinstance(text, Windows)
    assert dataset.natural is not None
    windows = np.concatenate(assignment_of(data_of(kind), dataset, 1).train)
    spans = Spans(text.starts, text.width)
    train, held = held_back(windows, dataset.natural, 0.8, spans)
    assert len(held) > 0
    split = Assignment((windows[train],), (windows[held],), windows[:0])
    assert leaked(dataset, split) == 0
    assert not set(train) & set(held)


def test_the_finders_find_a_random_split() -> None:
    dataset = made_up()
    order = generator(1, "any").permutation(1000)
    random = Assignment((order[:800],), (order[800:],), order[:0])
    assert leaked(dataset, random) >= 190
    assert remembered(dataset, random) > 0.95


def test_a_run_is_split_as_leaf_splits_it() -> None:
    spans = Spans(np.arange(5000, dtype=np.int64), 80)
    train, test = split_apart(np.arange(1000, 3000), 0.8, spans)
    assert (train[0], train[-1], len(train)) == (1000, 2599, 1600)
    assert (test[0], test[-1], len(test)) == (2679, 2999, 321)  # 79 are left out


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=80), st.floats(0.1, 0.9), st.integers(1, 9)
)
def test_only_windows_that_overlap_training_are_left_out(
    steps: list[int], ratio: float, width: int
) -> None:
    spans = Spans(np.cumsum(steps).astype(np.int64), width)
    run = np.arange(len(steps))
    train, test = split_apart(run, ratio, spans)
    last = spans.starts[train[-1]]
    assert len(train) >= 1
    left_out = run[len(train) : len(run) - len(test)]
    assert all(spans.starts[left_out] < last + width)
    assert all(spans.starts[test] >= last + width)
    assert [*train, *left_out, *test] == run.tolist()
    assert can_be_split(run, ratio, spans) == bool(len(test))


def test_roles_without_windows_are_on_neither_side() -> None:
    spans = Spans(np.arange(300, dtype=np.int64), 80)
    train, test = sides(np.array([0, 0, 200, 300]), 0.5, spans)
    assert train.tolist() == [*range(100), *range(200, 250)]
    assert test.tolist() == [*range(179, 200)]


def test_a_client_with_a_limit_keeps_neighbouring_windows() -> None:
    dataset = made_up()
    assert dataset.natural is not None
    allotment = assignment_of(data_of("natural", max_samples=450), dataset, 1)
    begins = []
    for train, test in zip(allotment.train, allotment.test, strict=True):
        assert train.tolist() == [*range(train[0], train[0] + 360)]
        assert test.tolist() == [*range(train[-1] + 80, train[0] + 450)]
        begins.append(
            train[0] - dataset.natural[np.searchsorted(dataset.natural, train[0]) - 1]
        )
    assert len(set(begins)) > 1


def test_roles_too_short_for_both_parts_are_not_drawn() -> None:
    message = r"expected at most 0, .* and windows to test .* \(data\.max_samples = 390\)"
    with pytest.raises(ConfigError, match=message):
        assignment_of(data_of("natural", max_samples=390), made_up(), 1)


def test_a_client_without_windows_to_test_is_named() -> None:
    with pytest.raises(DataError, match=r"client \d+ has \d+ windows to train and 0 to test"):
        assignment_of(data_of("iid", clients=900, max_samples=2), made_up(), 1)


def test_windows_cannot_be_split_by_class() -> None:
    with pytest.raises(ConfigError, match=r"data\.stratify is true, but .* windows of a text"):
        assignment_of(data_of("iid", stratify=True), made_up(), 1)
