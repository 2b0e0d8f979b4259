"""Datasets from disk, found or downloaded once; every file is checked before it is used.

Which there are stands in `registry.py`, how their files are read in the files beside it. Who
gets which sample is decided in `common/data/partition.py`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from pathlib import Path

from common.data.datasets.base import Dataset, DatasetInfo, Layout, Windows
from common.data.datasets.download import download
from common.data.datasets.files import find_file
from common.data.datasets.registry import ENTRIES, Entry
from common.errors import ConfigError, DataError

__all__ = [
    "Dataset",
    "DatasetInfo",
    "Windows",
    "dataset_info",
    "load_dataset",
    "require_dataset",
]

BUILT_IN = Path(__file__).parent / "fmnist_mini"
SYSTEM = Path("/usr/share/datasets")


def dataset_info(name: str) -> DatasetInfo:
    """Shape, classes and size of a dataset."""
    return _entry(name).info


def require_dataset(name: str) -> Path:
    """The folder that holds the dataset; downloads it if it is nowhere on this machine."""
    return _require(_entry(name))[0]


def load_dataset(name: str) -> Dataset:
    """All samples of the dataset, in a fixed order."""
    entry = _entry(name)
    folder, layout = _require(entry)
    pool, info = layout.read(folder), entry.info
    # how many samples the plays have depends on their edition; nothing of them is for testing
    official = len(pool.labels) if info.official == info.size else info.official
    return Dataset(
        name, (pool.images,), pool.labels, info.classes, official, pool.natural, info.kind
    )


def _entry(name: str) -> Entry:
    if name not in ENTRIES:
        near = difflib.get_close_matches(name, ENTRIES, 1, 0.0)[0]
        raise ConfigError(f"data.dataset is {name!r}; did you mean {near!r}?")
    return ENTRIES[name]


def _require(entry: Entry) -> tuple[Path, Layout]:
    places = list(_places(entry))
    found = _found(entry, places)
    if found is not None:
        return found
    name, looked = entry.info.name, ", ".join(map(str, places))
    if entry.fetch is None:
        remedy = "set FEDBED_DATA to the folder that has its files"
        remedy = entry.remedy or (remedy if entry.folders else "install fedbed again")
        raise DataError(f"{name} is not in {looked}; {remedy}")
    try:
        place = download(entry, _cache())
    # torchvision reports a failed download as RuntimeError or as whatever urllib raised
    except (ImportError, RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())
        remedy = f"{entry.remedy}; or set" if entry.remedy else "set"
        raise DataError(
            f"{name} is not in {looked}, and cannot be downloaded ({reason}); "
            f"{remedy} FEDBED_DATA to the folder that has its files"
        ) from error
    found = _found(entry, [place])
    if found is None:
        raise DataError(f"{name} was downloaded to {place}, but not all of its files are there")
    return found


def _found(entry: Entry, places: list[Path]) -> tuple[Path, Layout] | None:
    """The first place that has all files of a layout."""
    for place in places:
        for layout in entry.layouts:
            if all(find_file(place, name) for name in layout.files):
                return place, layout
    return None


def _places(entry: Entry) -> Iterator[Path]:
    if not entry.folders:
        yield BUILT_IN
        return
    roots = [_cache(), Path("data"), SYSTEM]
    given = os.environ.get("FEDBED_DATA")
    if given:
        roots.insert(0, Path(given))
    for root in roots:
        yield from (root / folder for folder in entry.folders)
        if given and root == Path(given):
            yield root


def _cache() -> Path:
    return Path.home() / ".cache" / "fedbed"
