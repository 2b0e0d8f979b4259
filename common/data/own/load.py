"""From users' own data to a dataset: read, encoded, checked against its digest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from common.arrays import Array, digest
from common.config import DataSection, Schema
from common.config.schema import Kind
from common.data.datasets.base import Dataset
from common.data.own.encode import encoded_inputs, encoded_targets, texts
from common.data.own.parts import Part, Roles, Source, roles_of
from common.data.own.schema import schema_of
from common.data.own.sources import find_local, find_source, is_function, read_source
from common.data.own.statistics import Moments, deviation_of, moments_of, standardised
from common.errors import DataError


def read_schema(data: DataSection, wanted: Kind | None = None) -> Schema:
    """What a dataset on this machine is, with the digest of its content."""
    source = read_source(data, find_source(data))
    roles = roles_of(source, data)
    schema = schema_of(source, roles, wanted)
    found = _encoded(source, roles, schema, data)
    groups = 0 if found.natural is None else len(found.natural) - 1
    return msgspec.structs.replace(schema, digest=found.digest, groups=groups)


def load_own(data: DataSection) -> Dataset:
    """All samples of a dataset on this machine, if they are those of its schema."""
    schema, path = stated(data), find_source(data)
    source = read_source(data, path)
    found = _encoded(source, roles_of(source, data), schema, data)
    if found.digest != schema.digest:
        what = (
            "a loader must return the same each time"
            if is_function(data.dataset)
            else "restore it"
        )
        raise DataError(
            f"data.dataset is {data.dataset!r}, but {path} has other content than when the "
            f"experiment was loaded (digest {found.digest[:8]}, expected {schema.digest[:8]}): "
            f"{what}, or start a new run"
        )
    return _dataset(data, schema, found)


def load_local(data: DataSection, folder: Path, client_id: int) -> Dataset:
    """All samples of one client, from the folder that its board was given.

    Numbers of a table are not standardised: that needs what all clients together have.
    """
    schema, path = stated(data), find_local(data, folder, client_id)
    source = read_source(data, path)
    named = Source(source.parts, source.classes)
    found = _encoded(named, _stated_roles(named, data, schema), schema, data)
    return _dataset(data, msgspec.structs.replace(schema, mean=(), deviation=()), found)


def stated(data: DataSection) -> Schema:
    """The schema of a dataset that has one."""
    assert data.schema is not None, "an experiment's own dataset has a schema"
    return data.schema


def _stated_roles(source: Source, data: DataSection, schema: Schema) -> Roles:
    """Roles by the schema: what it does not name is refused where the columns are encoded."""
    features = tuple(one.name for one in (schema.columns or schema.inputs))
    if data.features or not features:
        return roles_of(source, data)
    part = source.parts[0]
    missing = [name for name in features if name not in part.columns]
    if missing:
        return Roles(_target_of(data, part), tuple(part.columns))
    return roles_of(source, msgspec.structs.replace(data, features=features))


def _target_of(data: DataSection, part: Part) -> tuple[str, ...]:
    return roles_of(Source((part,)), data).targets


@dataclass(frozen=True, slots=True, eq=False)
class _Encoded:
    inputs: tuple[Array, ...]
    targets: Array
    official: int
    natural: npt.NDArray[np.int64] | None
    digest: str


def _encoded(source: Source, roles: Roles, schema: Schema, data: DataSection) -> _Encoded:
    parts = [
        (encoded_inputs(part, roles, schema), encoded_targets(part, roles, schema))
        for part in source.parts
    ]
    inputs = tuple(
        np.concatenate(each) for each in zip(*(part[0] for part in parts), strict=True)
    )
    targets = np.concatenate([part[1] for part in parts])
    _check_unseen(source, roles, schema, [part[1] for part in parts])
    official, natural = len(parts[0][1]), None
    if roles.group:
        order, natural = _grouped(source.parts[0], roles.group)
        inputs = tuple(
            np.concatenate([one[:official][order], one[official:]]) for one in inputs
        )
        targets = np.concatenate([targets[:official][order], targets[official:]])
    named = {f"inputs.{at}": one for at, one in enumerate(inputs)} | {"targets": targets}
    if natural is not None:
        named["natural"] = natural
    named["official"] = np.array([official])
    found = digest({**named, data.dataset.partition(":")[0]: np.zeros(0)})
    return _Encoded(inputs, targets, official, natural, found)


def _check_unseen(source: Source, roles: Roles, schema: Schema, targets: list[Array]) -> None:
    """A class that is only in the test part can never be learned."""
    if schema.kind != "classification" or len(targets) == 1:
        return
    unseen = ~np.isin(targets[1], targets[0])
    if unseen.any():
        at = int(np.flatnonzero(unseen)[0])
        code = int(targets[1][at])
        name = schema.names[code] if schema.names else code
        place = source.parts[1].place(at, roles.targets[0])
        raise DataError(f"{place}: class {name!r} is in no training sample")


def _grouped(part: Part, name: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """An order in which the samples of a group are neighbours, and where each group begins."""
    _, codes = np.unique(texts(part, name), return_inverse=True)
    sizes = np.bincount(codes)
    return np.argsort(codes, kind="stable"), np.concatenate([[0], np.cumsum(sizes)])


def _dataset(data: DataSection, schema: Schema, found: _Encoded) -> Dataset:
    inputs = found.inputs
    if schema.columns and schema.mean:
        inputs = (standardised(inputs[0], schema.mean, schema.deviation),)
    elif not data.standardise:
        inputs = tuple(_single(one) for one in inputs)
    return Dataset(
        data.dataset,
        inputs,
        found.targets,
        schema.outputs,
        found.official,
        found.natural,
        kind=schema.kind,
    )


def _single(values: Array) -> Array:
    return values.astype(np.float32) if values.dtype == np.float64 else values


def moments_of_table(schema: Schema, values: Array) -> Moments:
    """The moments of the numbers in a table that is encoded but not standardised."""
    return moments_of(values[:, number_places(schema)])


def with_statistics(schema: Schema, moments: Moments) -> Schema:
    """The schema with mean and deviation of the numbers; categories stay 0 and 1."""
    width = sum(column.width for column in schema.columns)
    mean, deviation = np.zeros(width), np.ones(width)
    mean[number_places(schema)] = moments.mean
    deviation[number_places(schema)] = deviation_of(moments)
    return msgspec.structs.replace(
        schema, mean=tuple(mean.tolist()), deviation=tuple(deviation.tolist())
    )


def number_places(schema: Schema) -> list[int]:
    """Which of the numbers that the network gets are a column of numbers."""
    ends = np.cumsum([column.width for column in schema.columns])
    pairs = zip(ends.tolist(), schema.columns, strict=True)
    return [end - 1 for end, column in pairs if not column.categories]
