"""Which runs a study has, in the order in which they are run: the most telling first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from common.algorithms import known_builders
from common.errors import ConfigError, UsageError
from common.experiment.file import apply_override, parse_experiment
from common.experiment.toml_text import as_toml
from common.plugins import use_code
from fl_server.studies.runs import StudyRun
from fl_server.studies.study import Study, merged
from fl_server.sweeps.grid import short_name


def plan_study(
    study: Study,
    runs: Path,
    *,
    rows: Sequence[str] = (),
    settings: Sequence[str] = (),
    seeds: Sequence[int] = (),
    overrides: Iterable[str] = (),
) -> tuple[StudyRun, ...]:
    """All runs: centrally trained ones first (others start from them), then seed by seed.

    So a study that is stopped has compared as many rows as possible with the same seed. `rows`
    and `settings` choose among those of the study.
    """
    _check("--rows", rows, study.rows)
    _check("--settings", settings, study.settings)
    overrides = tuple(overrides)
    use_code(Path(study.folder))
    every = tuple(seeds) or tuple(range(1, study.seeds + 1))
    found = [
        _run(study, runs, row, setting, seed, overrides)
        for seed in every
        for setting in tuple(study.settings) or ("",)
        if not settings or setting in settings
        for row in study.rows
        if setting in study.setting_names(row) and (not rows or row in rows)
    ]
    return tuple(sorted(found, key=lambda run: not run.central))


def _check(option: str, names: Sequence[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise UsageError(f"{option} names {name!r}; the study has {', '.join(known)}")


def _run(
    study: Study,
    runs: Path,
    row: str,
    setting: str,
    seed: int,
    overrides: tuple[str, ...],
) -> StudyRun:
    asked = study.rows[row]
    name = "-".join(part for part in (study.name, row, setting) if part)
    table = merged(study.sections, {})
    if row in known_builders():
        _put(table, "algorithm.name", row)
    chosen = study.settings[setting].set if setting else {}
    for key, value in {**chosen, **asked.set}.items():
        _put(table, key, value)
    if asked.start:
        start = _run(study, runs, asked.start, _first(study, asked.start), seed, overrides)
        file = runs / start.name / "model.safetensors"
        _put(table, "model.init_weights", str(file.absolute()))
    for override in overrides:
        apply_override(table, override)
    _put(table, "experiment.name", name[:64])
    _put(table, "experiment.seed", seed)
    try:
        experiment = parse_experiment(table)
    except ConfigError as error:
        place = f"study {study.name}, row {row}" + (f", setting {setting}" if setting else "")
        raise ConfigError(f"{place}: {error}") from error
    return StudyRun(
        row, setting, short_name(name, seed), experiment, study.folder, asked.central
    )


def _first(study: Study, row: str) -> str:
    return study.setting_names(row)[0]


def _put(table: dict[str, Any], key: str, value: object) -> None:
    try:
        apply_override(table, f"{key}={as_toml(value)}")
    except ConfigError as error:
        raise ConfigError(f'{key!r} is no setting; expected "section.key"') from error
