"""The fleet file of a run: read, checked, kept beside what it has led to; its speeds."""

from __future__ import annotations

from pathlib import Path

from common.config import Experiment
from common.disk.atomic import write_atomic
from common.errors import ConfigError, UsageError
from common.experiment.file import read_table
from common.experiment.resolve import network_of, trial_of
from fl_server.fleet.file import needs_flops, parse_fleet, speed_of
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
    """Put a copy of the fleet file into the run's folder; a run has one fleet."""
    kept, wanted = folder / NAME, path.read_bytes()
    if kept.exists() and kept.read_bytes() != wanted:
        raise UsageError(
            f"{folder} was begun with another fleet file ({kept}); go on with that one, or "
            "choose another --run or --runs"
        )
    write_atomic(kept, wanted)


def check_fleet(path: Path, folder: Path) -> None:
    """Refuse what was run without a fleet, or with another one, as a run with this one."""
    if folder.exists() and not (folder / NAME).exists():
        raise UsageError(f"{folder} was begun without a fleet file; choose another --runs")
    if folder.exists():
        keep_fleet(path, folder)


def speeds_of(fleet: Fleet, experiment: Experiment) -> dict[str, float]:
    """Training samples per second of a process of each group, for the experiment's model."""
    flops = 0.0
    if needs_flops(fleet):
        from common.learning.footprint import training_flops  # imports torch

        flops = training_flops(network_of(experiment), trial_of(experiment))
    return {group.name: speed_of(fleet, group, flops) for group in fleet.group}
