"""The fleet file of a run: read, checked, and kept beside what it has led to."""

from __future__ import annotations

from pathlib import Path

from common.disk.atomic import write_atomic
from common.errors import ConfigError
from common.experiment.file import read_table
from fl_server.fleet.file import parse_fleet
from fl_server.fleet.kinds import Fleet

NAME = "fleet.toml"


def read_fleet(path: Path) -> Fleet:
    """A fleet file, checked."""
    _, table = read_table(path, "docs/fleets.md shows what is in one")
    try:
        return parse_fleet(table)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def keep_fleet(path: Path, folder: Path) -> None:
    """Put a copy of the fleet file into the run's folder."""
    write_atomic(folder / NAME, path.read_bytes())
