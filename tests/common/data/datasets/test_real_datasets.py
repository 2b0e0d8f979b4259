"""Datasets as they are in the world; only those that FEDBED_DATA has are looked at."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from common.data import datasets
from common.data.datasets import dataset_info, load_dataset
from common.data.datasets.files import find_file
from common.data.datasets.registry import ENTRIES
from common.data.datasets.shakespeare import ALPHABET

NAMES = sorted(ENTRIES.keys() - {"fmnist-mini"})


def need(name: str) -> None:
    given = os.environ.get("FEDBED_DATA")
    if not given:
        pytest.skip(f"needs {name}: set FEDBED_DATA to a folder that has it")
    places = [Path(given, folder) for folder in ENTRIES[name].folders]
    if not any(
        all(find_file(place, file) for file in layout.files)
        for place in places
        for layout in ENTRIES[name].layouts
    ):
        pytest.skip(f"needs {name}: FEDBED_DATA is {given}, which has no {name}")


@pytest.mark.parametrize("name", NAMES)
def test_a_real_dataset_is_what_is_known_of_it(name: str) -> None:
    need(name)
    dataset, info = load_dataset(name), dataset_info(name)
    assert dataset.inputs[0][:3].shape[1:] == info.shape
    assert len(dataset.inputs[0]) == len(dataset.targets)
    assert dataset.targets.min() >= 0
    assert dataset.targets.max() < dataset.classes == info.classes
    if not info.natural:
        assert (len(dataset.targets), dataset.official) == (info.size, info.official)


def test_the_real_plays_have_the_roles_and_windows_that_leaf_speaks_of() -> None:
    need("shakespeare")
    dataset = load_dataset("shakespeare")
    assert isinstance(dataset.inputs[0], datasets.Windows)
    assert dataset.natural is not None
    assert 1_100 < len(dataset.natural) - 1 < 1_200
    assert 4_100_000 < len(dataset.targets) < 4_300_000
    assert np.count_nonzero(np.diff(dataset.natural) >= 2_000) > 400
    assert "".join(ALPHABET[token] for token in dataset.inputs[0][:1][0]).isprintable()
