"""What users' own data is: a schema made from the data itself."""

from __future__ import annotations

import numpy as np

from common.config import ColumnSchema, InputSchema, Schema
from common.config.schema import Kind
from common.data.own.encode import kind_of, numbers, texts
from common.data.own.parts import Part, Roles, Source
from common.errors import DataError

MOST_CATEGORIES = 1000
FEW_CLASSES = 20  # whole numbers in a table are classes if there are no more different ones


def schema_of(source: Source, roles: Roles, wanted: Kind | None) -> Schema:
    """What the data is; `wanted` is what the task says that its targets are."""
    part = source.parts[0]
    kind = wanted or _kind(part, roles)
    if kind == "next-token":
        kind = "classification"
    names: tuple[str, ...] = ()
    outputs = sum(_width(part, name) for name in roles.targets)
    if kind == "classification":
        names, outputs = _classes(source, roles)
    elif len(roles.targets) > 1:
        names = roles.targets
    shown = (
        {"columns": _columns(part, roles)} if part.table else {"inputs": _inputs(part, roles)}
    )
    return Schema(
        kind=kind,
        outputs=outputs,
        names=names,
        train=_rows(part),
        test=_rows(source.parts[1]) if len(source.parts) > 1 else 0,
        **shown,  # one of the two
    )


def _rows(part: Part) -> int:
    return len(next(iter(part.columns.values())))


def _width(part: Part, name: str) -> int:
    values = part.columns[name]
    return 1 if values.ndim == 1 else int(np.prod(values.shape[1:]))


def _kind(part: Part, roles: Roles) -> Kind:
    """What targets are most likely meant to be."""
    if len(roles.targets) > 1 or part.columns[roles.targets[0]].ndim > 1:
        found = [numbers(part, name) for name in roles.targets]
        binary = all(np.isin(values, (0, 1)).all() for values in found)
        return "multi-label" if binary else "regression"
    values = part.columns[roles.targets[0]]
    if part.table:
        return _kind_of_column(part, roles.targets[0])
    return "regression" if values.dtype.kind == "f" else "classification"


def _kind_of_column(part: Part, name: str) -> Kind:
    if not _is_numeric(part, name):
        return "classification"
    found = numbers(part, name)
    whole = bool((found % 1 == 0).all())
    return "classification" if whole and len(np.unique(found)) <= FEW_CLASSES else "regression"


def _is_numeric(part: Part, name: str) -> bool:
    """Whether a column of a table is numbers; a few texts among numbers are mistakes."""
    values = part.columns[name]
    if values.dtype.kind not in "US":
        return True
    numeric = sum(_is_number(text) for text in values.tolist())
    return 2 * numeric > len(values)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _classes(source: Source, roles: Roles) -> tuple[tuple[str, ...], int]:
    """The names of the classes, and how many there are."""
    part, name = source.parts[0], roles.targets[0]
    values = part.columns[name]
    if len(roles.targets) > 1 or values.ndim > 1:
        raise DataError(
            f"{part.where}: targets have several values; expected one class for each sample, "
            "or task.kind = 'multi-label'"
        )
    if len(different := np.unique(values)) == 1:
        raise DataError(
            f"{part.where}: all samples have the class {str(different[0])[:40]!r} in {name!r}; "
            "expected at least two classes, or nothing can be learned"
        )
    if not part.table and values.dtype.kind not in "US":
        most = int(numbers(part, name).max()) + 1
        return source.classes, max(len(source.classes), most, 1)
    _check_fractions(part, name)
    found = _sorted(np.unique(texts(part, name)).tolist())
    if len(found) > MOST_CATEGORIES:
        raise DataError(
            f"{part.where}: column {name!r} has {len(found)} different values; expected "
            f"at most {MOST_CATEGORIES} classes, or task.kind = 'regression'"
        )
    if source.classes and set(found) <= set(source.classes):
        return source.classes, len(source.classes)
    return found, len(found)


def _check_fractions(part: Part, name: str) -> None:
    """Refuse numbers that are no classes; a few different texts such as '2.5' may be."""
    values = part.columns[name]
    is_text = values.dtype.kind in "US"
    if not _is_numeric(part, name) or (is_text and len(np.unique(values)) <= FEW_CLASSES):
        return
    found = numbers(part, name)
    if (found % 1 != 0).any():
        at = int(np.flatnonzero(found % 1 != 0)[0])
        raise DataError(
            f"{part.place(at, name)}: {found[at]:g} is not a class; expected texts or whole "
            "numbers, or task.kind = 'regression'"
        )


def _sorted(names: list[str]) -> tuple[str, ...]:
    """Numbers by their size, texts by their letters."""
    if all(map(_is_number, names)):
        return tuple(sorted(names, key=float))
    return tuple(sorted(names))


def _columns(part: Part, roles: Roles) -> tuple[ColumnSchema, ...]:
    return tuple(_column(part, name) for name in roles.features)


def _column(part: Part, name: str) -> ColumnSchema:
    if _is_numeric(part, name):
        return ColumnSchema(name=name)
    found = np.unique(texts(part, name)).tolist()
    if len(found) > MOST_CATEGORIES:
        raise DataError(
            f"{part.where}: column {name!r} has {len(found)} different texts; expected at most "
            f"{MOST_CATEGORIES} categories: leave it out by data.features"
        )
    return ColumnSchema(name=name, categories=tuple(found))


def _inputs(part: Part, roles: Roles) -> tuple[InputSchema, ...]:
    made = []
    for name in roles.features:
        values = part.columns[name]
        kind = kind_of(values)
        if kind == "text":
            raise DataError(
                f"{part.where}: {name!r} has texts; expected numbers, or a table (csv:FILE)"
            )
        made.append(InputSchema(name=name, dtype=kind, shape=values.shape[1:]))  # type: ignore[arg-type]
    return tuple(made)
