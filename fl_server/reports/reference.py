"""Published numbers to set beside one's own: a small TOML file, checked."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from common.errors import ConfigError
from common.experiment.file import read_table
from fl_server.run.summary import METRICS


class Reference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of accuracies in percent.

    A row belongs to runs whose setting `match` has the row's name as its value; a column is
    one of our metrics, and `value` says which of a run's numbers stands beside it.
    """

    title: str
    source: str
    note: str = ""
    match: str = "algorithm.name"
    value: Literal["best", "last", "mean_last"] = "best"
    columns: dict[str, str]
    rows: dict[str, dict[str, float]]


def read_reference(path: Path) -> Reference:
    """A reference file."""
    table = read_table(path)[1]
    try:
        found = msgspec.convert(table, Reference)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from error
    for name, metric in found.columns.items():
        _check(f"{path}: columns.{name}", metric, METRICS)
    for row, numbers in found.rows.items():
        for name in numbers:
            _check(f"{path}: rows.{row}", name, found.columns)
    return found


def _check(place: str, name: str, known: Mapping[str, str] | tuple[str, ...]) -> None:
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(known)}"
    raise ConfigError(f"{place} names {name!r}; {hint}")
