"""What every source of users' own data is read as: named arrays, with a row for each sample."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from common.arrays import Array
from common.config import DataSection
from common.errors import DataError

TARGETS = ("target", "targets", "label")  # without data.target
GROUPS = "groups"  # of arrays, without data.group


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The training or the test part. Texts of a table are not yet numbers."""

    where: str
    columns: Mapping[str, Array]
    table: bool = False

    def row(self, index: int) -> str:
        """How errors name a row."""
        return f"{self.where}, line {index + 2}" if self.table else f"{self.where}[{index}]"

    def place(self, index: int, name: str) -> str:
        """How errors name a value."""
        if self.table:
            return f"{self.row(index)}, column {name!r}"
        return f"{self.where}: {name}[{index}]"

    def column(self, setting: str, name: str) -> Array:
        """A column that a setting names."""
        if name not in self.columns:
            near = difflib.get_close_matches(name, self.columns, 1, 0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {brief(self.columns)}"
            raise DataError(f"{setting} is {name!r}, which {self.where} does not have; {hint}")
        return self.columns[name]


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A dataset as it was read: the training part, and maybe a test part."""

    parts: tuple[Part, ...]
    classes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Roles:
    """Which columns are what."""

    targets: tuple[str, ...]
    features: tuple[str, ...]
    group: str = field(default="")


def roles_of(source: Source, data: DataSection) -> Roles:
    """What the columns are for, by the settings or by their names."""
    part = source.parts[0]
    targets = (data.target,) if isinstance(data.target, str) else data.target
    if targets in ((), ("",)):
        found = next((name for name in TARGETS if name in part.columns), None)
        if found is None:
            raise DataError(
                f"data.target is not set, and {part.where} has no column 'target'; it has "
                f"{brief(part.columns)}"
            )
        targets = (found,)
    group = data.group or (GROUPS if not part.table and GROUPS in part.columns else "")
    others = tuple(name for name in part.columns if name not in (*targets, group))
    features = data.features or others
    for name in targets:
        part.column("data.target", name)
    for name in features:
        part.column("data.features", name)
        if name in targets:
            raise DataError(
                f"data.features has {name!r}, which is data.target: nothing to learn"
            )
    if group:
        part.column("data.group", group)
    if not features:
        raise DataError(
            f"{part.where} has no column besides {brief(targets)}; nothing to learn from"
        )
    return Roles(targets, features, group)


def brief(names: Iterable[str], most: int = 12) -> str:
    """Some names, for a message."""
    known = list(names)
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(map(repr, known[:most])) + more
