"""A first experiment with a user's own dataset, written after a look at the data."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from common.config import DataSection, InputSchema, Schema
from common.data.own.load import load_own, read_schema
from common.data.own.sources import is_function
from common.errors import DataError, UsageError
from common.experiment.file import schema_lines
from common.experiment.toml_text import as_toml
from common.plugins import use_code
from common.texts import printable
from fl_server.check.doubts import doubtful_columns

CLIENTS = 12  # at most; fewer where there are few samples
EACH = 25  # samples that a client should have at least
IMAGE_SIZE = 64  # of images that have several sizes
IMAGE = 3  # dimensions
RATE = 0.005  # of adam, for targets about 1; it grows with their root, as both layers do
SLOWEST, FASTEST = 0.001, 10.0
_EVERY_BOARD = (
    "# From one example: add the classes and categories that only other boards have.",
)


@dataclass(frozen=True, slots=True)
class Draft:
    """The text of a file, and what the data is."""

    text: str
    found: str
    doubts: tuple[str, ...] = ()
    model_to_write: str = ""  # where none of ours would do


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a person says about the data: its name as seen from here, and how it is used."""

    dataset: str
    target: str = ""
    features: tuple[str, ...] = ()
    clients: int = 0  # 0: as the number of samples suggests
    local: bool = False


def draft(file: Path, wanted: Wanted) -> Draft:
    """An experiment in `file` for a dataset."""
    dataset, local = wanted.dataset, wanted.local
    if ":" not in dataset:
        raise UsageError(
            f"--dataset is {dataset!r}; expected csv:FILE, parquet:FILE, npz:FILE, folder:PATH "
            "or file.py:function"
        )
    use_code(file.parent.absolute())
    data = DataSection(
        dataset=_as_seen_from(file.parent, dataset),
        target=wanted.target,
        features=wanted.features,
    )
    data, schema = _looked_at(data)
    usual = 4 if local else max(1, min(CLIENTS, (schema.train + schema.test) // EACH))
    clients = wanted.clients or usual
    inputs = schema.all_inputs
    lines = [
        f"# {_words(schema, inputs)}",
        "# Every other key has its default: `fl-server check FILE --all` shows them.",
        "",
        "[experiment]",
        "rounds = 10",
        "",
        "[data]",
        *_data_lines(data, schema, clients, local=local),
        "",
        *(_EVERY_BOARD if local else ()),
        *(schema_lines(_stated(schema)) if local else ()),
        "[model]",
        f"name = {as_toml(_model(inputs))}",
        "",
        "[training]",
        "epochs = 2",
        *(_for_numbers(data, schema) if schema.kind == "regression" else ()),
        "",
    ]
    missing = _model(inputs) if len(inputs) > 1 else ""
    doubts = tuple(doubtful_columns(schema))
    return Draft("\n".join(lines), _words(schema, inputs), doubts, missing)


def _for_numbers(data: DataSection, schema: Schema) -> tuple[str, ...]:
    """Settings that fit the size of the targets."""
    targets = load_own(msgspec.structs.replace(data, schema=schema)).targets
    typical = float(np.sqrt(np.mean(np.square(targets, dtype=np.float64))))
    rate = min(FASTEST, max(SLOWEST, RATE * math.sqrt(typical)))
    return (
        f"# targets keep their unit; these settings are for numbers of about {typical:.1g}",
        'optimizer = "adam"',
        f"learning_rate = {float(f'{rate:.1g}')}",
    )


def _as_seen_from(folder: Path, dataset: str) -> str:
    """A dataset's name with a path that begins at the experiment's folder."""
    kind, _, place = dataset.partition(":")
    if is_function(dataset):
        return dataset
    path = Path(place).expanduser().absolute()
    near = os.path.relpath(path, folder.absolute())
    return f"{kind}:{path if near.startswith('../..') else near}"


def _looked_at(data: DataSection) -> tuple[DataSection, Schema]:
    try:
        return data, read_schema(data)
    except DataError:
        if not data.dataset.startswith("folder:"):
            raise
        scaled = msgspec.structs.replace(data, image_size=IMAGE_SIZE)
        try:
            return scaled, read_schema(scaled)
        except DataError:
            pass
        raise


def _data_lines(data: DataSection, schema: Schema, clients: int, *, local: bool) -> list[str]:
    kind, _, place = data.dataset.partition(":")
    name = f"{kind}:{Path(place).name}" if local and not is_function(data.dataset) else None
    skewed = schema.kind == "classification"
    partition = "local" if local else "dirichlet" if skewed else "iid"
    lines = [f"dataset = {as_toml(name or data.dataset)}"]
    lines += [f"target = {as_toml(data.target)}"] if data.target else []
    lines += [f"features = {as_toml(data.features)}"] if data.features else []
    lines += [f"image_size = {data.image_size}"] if data.image_size else []
    lines += [f"clients = {clients}", f"partition = {as_toml(partition)}"]
    return lines + (["alpha = 1.0"] if partition == "dirichlet" else [])


def _stated(schema: Schema) -> Schema:
    """What boards agree on: nothing about the samples of the example."""
    return Schema(
        kind=schema.kind,
        outputs=schema.outputs,
        names=schema.names,
        columns=schema.columns,
        inputs=schema.inputs,
    )


def _model(inputs: tuple[InputSchema, ...]) -> str:
    if len(inputs) > 1:
        return "my_model.py:network"
    return "convnet" if len(inputs[0].shape) == IMAGE else "dnn"


def _words(schema: Schema, inputs: tuple[InputSchema, ...]) -> str:
    """What was found, as one line."""
    count = schema.train + schema.test
    shapes = " and ".join("x".join(map(str, one.shape)) or "1" for one in inputs)
    if schema.columns:
        shapes = f"{len(schema.columns)} columns ({inputs[0].shape[0]} numbers)"
    many = f"{schema.outputs} classes" if schema.kind == "classification" else schema.kind
    named = f" ({', '.join(schema.names[:6])}{', ...' if len(schema.names) > 6 else ''})"
    return printable(f"{count:,} samples of {shapes}, {many}{named if schema.names else ''}")
