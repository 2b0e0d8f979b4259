"""The dataset of an experiment, whether it is one of ours or a user's own."""

from __future__ import annotations

from pathlib import Path

from common.config import DataSection
from common.data.datasets import dataset_info, load_dataset, require_dataset
from common.data.datasets.base import Dataset, DatasetInfo
from common.data.own.load import load_own, stated
from common.data.own.sources import find_source, is_own

OF_CLASSES = ("classification", "next-token")  # kinds whose targets are classes
UNKNOWN = 10**9  # samples: of data that only boards have


def info_of(data: DataSection) -> DatasetInfo:
    """What is known of the dataset without reading it."""
    if not is_own(data.dataset):
        return dataset_info(data.dataset)
    schema = stated(data)
    shapes = tuple(one.shape for one in schema.all_inputs)
    local = data.partition == "local"
    return DatasetInfo(
        data.dataset,
        shapes[0],
        schema.outputs,
        UNKNOWN if local else schema.train + schema.test,
        UNKNOWN if local else schema.train,
        natural=schema.groups > 0,
        kind=schema.kind,
        inputs=schema.all_inputs,
    )


def load_data(data: DataSection) -> Dataset:
    """All samples, in a fixed order."""
    return load_own(data) if is_own(data.dataset) else load_dataset(data.dataset)


def find_data(data: DataSection) -> Path | None:
    """Where the dataset is; one that is not there and cannot be downloaded is refused.

    None: only boards have it.
    """
    if data.partition == "local":
        return None
    return find_source(data) if is_own(data.dataset) else require_dataset(data.dataset)
