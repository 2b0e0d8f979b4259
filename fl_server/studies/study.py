"""PURE: a study: the rows, settings and published numbers of one table of a paper, checked.

A study file has the sections of an experiment file, which hold for all of its runs, and says
what the runs differ in: every row in every setting with every seed is a run.
"""

from __future__ import annotations

import copy
import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from common.config import Experiment, Option
from common.errors import ConfigError
from common.tasks.task import every_number
from fl_server.watch.facts.derived import DERIVED

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}\Z")
_FIRST_ROUND = re.compile(r"(\w+) >= ([0-9.]+)\Z")


class Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A column group of the table: `set` has "section.key" = value."""

    title: str = ""
    set: dict[str, Option] = {}


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of the table; without `set` it is the algorithm of its name.

    `published` has the numbers of all columns for the first setting, then for the second, as
    they are printed; nan where nothing is. `only` names the settings that the row has, if not
    all. A row with `central` trains on all samples in one place; one with `start` begins with
    the model of such a row.
    """

    title: str = ""
    set: dict[str, Option] = {}
    published: tuple[float, ...] = ()
    only: tuple[str, ...] = ()
    central: bool = False
    start: str = ""


class Study(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One published table and the runs behind it; `sections` are those of an experiment."""

    name: str
    folder: str
    title: str
    source: str
    note: str = ""
    value: Literal["best", "last", "mean_last"] = "best"
    seeds: Annotated[int, Meta(ge=1, le=100)] = 1
    columns: dict[str, str]
    settings: dict[str, Setting] = {}
    rows: dict[str, Row]
    sections: dict[str, dict[str, Any]] = {}

    @property
    def runs(self) -> int:
        """How many runs it has in all."""
        return self.seeds * sum(len(self.setting_names(row)) for row in self.rows)

    def setting_names(self, row: str) -> tuple[str, ...]:
        """The settings that a row has; one without a name if the study has none."""
        return self.rows[row].only or tuple(self.settings) or ("",)

    def published(self, row: str, setting: str, column: str) -> float | None:
        """The number that is printed, as a fraction; None if there is none."""
        numbers = self.rows[row].published
        if not numbers:
            return None
        group = list(self.settings or ("",)).index(setting)
        value = numbers[group * len(self.columns) + list(self.columns).index(column)]
        percent = first_round(self.columns[column]) is None
        return None if math.isnan(value) else value / 100 if percent else value


@dataclass(frozen=True, slots=True)
class FirstRound:
    """A column that has the first round in which a metric is at least so large."""

    metric: str
    accuracy: float


def first_round(column: str) -> FirstRound | None:
    """`"mean_l2 >= 0.9"` as what it means; None for a plain metric."""
    found = _FIRST_ROUND.match(column)
    return None if found is None else FirstRound(found[1], float(found[2]))


def parse_study(name: str, folder: str, table: Mapping[str, Any]) -> Study:
    """The table of a study file in a folder; ConfigError names the place in it."""
    own = set(Study.__struct_fields__) - {"name", "folder", "sections"}
    values = {key: value for key, value in table.items() if key in own}
    sections = {key: value for key, value in table.items() if key not in own}
    for key in sections:
        if key not in Experiment.__struct_fields__:
            near = difflib.get_close_matches(key, (*own, *Experiment.__struct_fields__), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(f"{key} is no key of a study and no section{hint}")
    try:
        study = msgspec.convert(
            {**values, "name": name, "folder": folder, "sections": sections}, Study
        )
    except msgspec.ValidationError as error:
        raise ConfigError(str(error)) from error
    for place, names in (("rows", study.rows), ("settings", study.settings)):
        for one in names:
            if not _NAME.match(one):
                raise ConfigError(f"{place}.{one}: a name has letters, digits and _.- only")
    for column, metric in study.columns.items():
        found = first_round(metric)
        known = (*every_number(), *DERIVED)
        _check(f"columns.{column}", found.metric if found else metric, known)
    for one in study.rows:
        _check_row(study, one)
    return study


def _check_row(study: Study, name: str) -> None:
    row, place = study.rows[name], f"rows.{name}"
    wanted = len(study.columns) * max(1, len(study.settings))
    if row.published and len(row.published) != wanted:
        raise ConfigError(
            f"{place}.published has {len(row.published)} numbers; expected {wanted}: "
            f"{len(study.columns)} columns for each of {max(1, len(study.settings))} settings"
        )
    for setting in row.only:
        _check(f"{place}.only", setting, study.settings)
    if row.start and not (row.start in study.rows and study.rows[row.start].central):
        raise ConfigError(f"{place}.start is {row.start!r}; expected a row with central = true")


def _check(place: str, name: str, known: Iterable[str]) -> None:
    known = tuple(known)
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(known)}"
    raise ConfigError(f"{place} names {name!r}; {hint}")


def merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """A table with another one laid over it, table by table."""
    found = copy.deepcopy(dict(base))
    for key, value in more.items():
        below = found.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            found[key] = merged(below, value)
        else:
            found[key] = copy.deepcopy(value)
    return found
