"""The fleet file of a run: read, checked, kept beside what it has led to; its speeds."""

from __future__ import annotations

from pathlib import Path

from common.config import Experiment
from common.disk.atomic import write_atomic
from common.errors import ConfigError
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
    """Put a copy of the fleet file into the run's folder."""
    write_atomic(folder / NAME, path.read_bytes())


def speeds_of(fleet: Fleet, experiment: Experiment) -> dict[str, float]:
    """Training samples per second of a process of each group, for the experiment's model."""
    flops = 0.0
    if needs_flops(fleet):
        from common.learning.footprint import training_flops  # imports torch

        flops = training_flops(network_of(experiment), trial_of(experiment))
    return {group.name: speed_of(fleet, group, flops) for group in fleet.group}
