"""The studies that come with fedbed, and those of a user's own, by name or by file."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from common.errors import ConfigError, UsageError
from common.experiment.file import read_table
from fl_server.studies.study import Study, merged, parse_study

FOLDER = Path(__file__).parent / "tables"


def study_names() -> list[str]:
    """The studies that come with fedbed, in the order in which they are listed."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def find_study(name: str) -> Study:
    """A study by its name, or by the path of its file."""
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if not path.is_file():
        near = difflib.get_close_matches(name, study_names(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else "'fl-server reproduce --list' has all"
        raise UsageError(f"there is no study {name!r}; {hint}")
    return read_study(path)


def read_study(path: Path) -> Study:
    """The study in a file."""
    try:
        return parse_study(path.stem, str(path.parent.absolute()), _whole_table(path))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _whole_table(path: Path) -> dict[str, Any]:
    """A file's table, laid over that of its `base` in the same folder."""
    table = read_table(path)[1]
    base = table.pop("base", None)
    if base is None:
        return table
    below = path.with_name(f"{base}.toml")
    if below == path or not below.is_file():
        raise ConfigError(f"base is {base!r}; expected the name of another file beside it")
    return merged(_whole_table(below), table)
