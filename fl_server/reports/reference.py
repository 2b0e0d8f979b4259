"""PURE: published numbers to compare with: a small table, checked."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from common.errors import ConfigError
from common.tasks.task import every_number
from fl_server.watch.facts.derived import DERIVED


class Reference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of metrics; shares, such as accuracies, are in percent.

    A row belongs to runs whose setting `match` has the row's name as its value; a column is
    one of our metrics, and `value` is the number of a run that is compared with it.
    """

    title: str
    source: str
    note: str = ""
    match: str = "algorithm.name"
    value: Literal["best", "last", "mean_last"] = "best"
    columns: dict[str, str]
    rows: dict[str, dict[str, float]]


def parse_reference(table: dict[str, Any]) -> Reference:
    """The table of a reference file; ConfigError names the place in it."""
    try:
        found = msgspec.convert(table, Reference)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error)) from error
    for name, metric in found.columns.items():
        _check(f"columns.{name}", metric, (*every_number(), *DERIVED))
    for row, numbers in found.rows.items():
        for name in numbers:
            _check(f"rows.{row}", name, found.columns)
    return found


def _check(place: str, name: str, known: Mapping[str, str] | tuple[str, ...]) -> None:
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(known)}"
    raise ConfigError(f"{place} names {name!r}; {hint}")
