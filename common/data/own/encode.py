"""PURE: columns as the arrays that networks take, as a schema says; names what does not fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from common.arrays import Array
from common.config import ColumnSchema, InputSchema, Schema
from common.data.own.parts import Part, Roles, brief
from common.errors import DataError

FEATURES = "features"
_MISSING = {"", "nan", "na", "n/a", "null"}
_KINDS = {"uint8": np.uint8, "float32": np.float32, "int64": np.int64}


def encoded_inputs(part: Part, roles: Roles, schema: Schema) -> tuple[Array, ...]:
    """The inputs of the network; those of a table are float64, not yet standardised."""
    if schema.columns:
        return (_table(part, roles, schema.columns),)
    known = {spec.name for spec in schema.inputs}
    if known != set(roles.features):
        odd = sorted(known ^ set(roles.features))[0]
        has = "has" if odd in roles.features else "does not have"
        raise DataError(f"{part.where} {has} {odd!r}; the schema has {brief(sorted(known))}")
    return tuple(_input(part, spec) for spec in schema.inputs)


def _table(part: Part, roles: Roles, columns: Sequence[ColumnSchema]) -> Array:
    for column in columns:
        if column.name not in part.columns:
            raise DataError(
                f"{part.where} has no column {column.name!r}, which the schema has; it has "
                f"{brief(part.columns)}"
            )
    if extra := sorted(set(roles.features) - {column.name for column in columns}):
        raise DataError(
            f"{part.where} has a column {extra[0]!r}, which the schema does not have; leave it "
            "out by data.features"
        )
    made = [
        _one_hot(part, column) if column.categories else numbers(part, column.name)[:, None]
        for column in columns
    ]
    return np.concatenate(made, axis=1)


def numbers(part: Part, name: str) -> npt.NDArray[np.float64]:
    """A column of numbers; one that is missing or no number is named."""
    values = part.columns[name]
    try:
        found = values.astype(np.float64)
    except ValueError:
        found = np.array([_number(text) for text in values.tolist()], np.float64)
    if np.isfinite(found).all():
        return found
    at = int(np.flatnonzero(~np.isfinite(found).reshape(len(found), -1).all(1))[0])
    text = str(values[at]).strip()
    if values.ndim > 1 or text.lower() in _MISSING:
        raise DataError(
            f"{part.place(at, name)}: a value is missing (NaN or infinite); fill it in, or "
            "leave the sample out"
        )
    wanted = "a finite number" if np.isinf(found[at]) else "a number"
    raise DataError(f"{part.place(at, name)}: {text[:40]!r} is not {wanted}")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


def texts(part: Part, name: str) -> npt.NDArray[np.str_]:
    """A column of texts; whole numbers are texts without a point."""
    values = part.columns[name]
    if values.dtype.kind in "biu" or (
        values.dtype.kind == "f" and np.isfinite(values).all() and (values % 1 == 0).all()
    ):
        return values.astype(np.int64).astype(np.str_)
    found = values.astype(np.str_)
    missing = [at for at, text in enumerate(found.tolist()) if text.lower() in _MISSING]
    if missing:
        raise DataError(f"{part.place(missing[0], name)}: a value is missing; fill it in")
    return found


def _codes(part: Part, name: str, known: Sequence[str], what: str) -> npt.NDArray[np.int64]:
    place = {text: code for code, text in enumerate(known)}
    found = texts(part, name).tolist()
    codes = np.array([place.get(text, -1) for text in found], np.int64)
    if (codes < 0).any():
        at = int(np.flatnonzero(codes < 0)[0])
        raise DataError(
            f"{part.place(at, name)}: {found[at][:40]!r} is not one of the {what} "
            f"({brief(known, 8)})"
        )
    return codes


def _one_hot(part: Part, column: ColumnSchema) -> npt.NDArray[np.float64]:
    codes = _codes(part, column.name, column.categories, "categories of the schema")
    return np.eye(len(column.categories))[codes]


def _input(part: Part, spec: InputSchema) -> Array:
    values = part.columns[spec.name]
    if values.shape[1:] != spec.shape:
        raise DataError(
            f"{part.where}: samples of {spec.name!r} have the shape {list(values.shape[1:])}; "
            f"the schema has {list(spec.shape)}"
        )
    if kind_of(values) != spec.dtype:
        raise DataError(
            f"{part.where}: {spec.name!r} has {values.dtype}; the schema has {spec.dtype}"
        )
    if spec.dtype == "float32":
        values = numbers(part, spec.name)
    return values.astype(_KINDS[spec.dtype])


def kind_of(values: Array) -> str:
    """How an array goes into a network: bytes, numbers or symbols."""
    if values.dtype.kind in "US":
        return "text"
    if values.dtype == np.uint8:
        return "uint8"
    return "float32" if values.dtype.kind == "f" else "int64"


def encoded_targets(part: Part, roles: Roles, schema: Schema) -> Array:
    """What the network shall answer."""
    for name in roles.targets:
        if name not in part.columns:
            raise DataError(f"{part.where} has no column {name!r}, which is data.target")
    match schema.kind:
        case "regression":
            return _joined(
                [numbers(part, name) for name in roles.targets], part, schema
            ).astype(np.float32)
        case "multi-label":
            return _labels(part, roles, schema)
        case _:
            return _classes(part, roles.targets[0], schema)


def _joined(columns: list[npt.NDArray[np.float64]], part: Part, schema: Schema) -> Array:
    """Targets of one number are [n], of several [n, k]."""
    flat = [column.reshape(len(column), -1) for column in columns]
    found = np.concatenate(flat, axis=1)
    if found.shape[1] != schema.outputs:
        raise DataError(
            f"{part.where}: targets have {found.shape[1]} numbers; the schema has "
            f"{schema.outputs}"
        )
    return found[:, 0] if schema.outputs == 1 else found


def _labels(part: Part, roles: Roles, schema: Schema) -> Array:
    found = _joined([numbers(part, name) for name in roles.targets], part, schema)
    found = found.reshape(len(found), -1)
    odd = ~np.isin(found, (0, 1)).all(1)
    if odd.any():
        at = int(np.flatnonzero(odd)[0])
        raise DataError(f"{part.row(at)}: a label is not 0 or 1, which task.kind expects")
    return found.astype(np.uint8)


def _classes(part: Part, name: str, schema: Schema) -> Array:
    values = part.columns[name]
    if values.ndim != 1:
        raise DataError(
            f"{part.where}: {name} has the shape {list(values.shape)}; expected one class for "
            "each sample"
        )
    if schema.names and (part.table or values.dtype.kind in "US"):
        return _codes(part, name, schema.names, "classes of the schema")
    found = numbers(part, name)
    wrong = (found % 1 != 0) | (found < 0) | (found >= schema.outputs)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"{part.place(at, name)}: {values[at]} is not a class; expected 0 to "
            f"{schema.outputs - 1}, or task.kind = 'regression'"
        )
    return found.astype(np.int64)
