"""Reading runs for a report; nothing in their folders is changed, so they may still go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from common.config import Experiment
from common.errors import StoreError, UsageError
from common.experiment.file import load_experiment
from fl_server.run.journal import read_records
from fl_server.run.store import has_run
from fl_server.run.summary import Line, Summary, summarize


@dataclass(frozen=True, slots=True)
class RunData:
    """One run as it stands on disk."""

    name: str
    experiment: Experiment
    finished: bool
    lines: tuple[Line, ...]
    events: tuple[dict[str, Any], ...]
    summary: Summary

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.experiment.experiment.seed

    @property
    def digest(self) -> str:
        """The digest of the final model, if there is one."""
        ends = [event["digest"] for event in self.events if event["event"] == "finished"]
        return str(ends[-1]) if ends else ""


def read_run(folder: Path, thresholds: Sequence[float] | None = None) -> RunData:
    """A run's settings, metrics and events."""
    record = _read_record(folder)
    experiment = load_experiment(folder / "experiment.toml")
    lines = tuple(read_records(folder / "metrics.jsonl"))
    stage = experiment.evaluation.personal_stage
    summary = summarize(lines, stage, thresholds) if thresholds else summarize(lines, stage)
    return RunData(
        name=folder.name,
        experiment=experiment,
        finished=bool(record.get("finished")),
        lines=lines,
        events=tuple(read_records(folder / "events.jsonl")),
        summary=summary,
    )


def find_folders(names: Sequence[str], runs: Path) -> list[Path]:
    """Run folders by path, or by name in `runs`; without names, all that are there."""
    if not names:
        found = sorted(path.parent for path in runs.glob("*/run.json"))
        if not found:
            raise UsageError(f"no run in {runs}; name one, or say where they are with --runs")
        return found
    return [_find(name, runs) for name in names]


def _find(name: str, runs: Path) -> Path:
    for folder in (Path(name), runs / name):
        if has_run(folder.parent, folder.name):
            return folder
    raise UsageError(f"no run {name!r}, neither as a folder nor in {runs}")


def _read_record(folder: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode((folder / "run.json").read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        raise StoreError(f"{folder} is not a run folder: {error}") from error
