"""Reads what a report is made of: runs, and published numbers to compare with.

Nothing in the run folders is changed, so the runs may still go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from common.errors import ConfigError, StoreError, UsageError
from common.experiment.file import read_experiment, read_table
from common.experiment.tasks import task_of
from common.tasks.metrics import Number
from common.tasks.task import STAGES, Task
from fl_server.reports.central_run import is_central, read_central
from fl_server.reports.reference import Reference, parse_reference
from fl_server.reports.run_data import RunData
from fl_server.run.journal import read_last, read_records
from fl_server.run.metrics.summary import summarize
from fl_server.run.metrics.tally import ClientSums
from fl_server.watch.facts import Fact
from fl_server.watch.facts.lines import MetricsLine, parse_lines
from fl_server.watch.facts.making import parse


def read_run(folder: Path, levels: Sequence[float] | None = None) -> RunData:
    """A run's settings, metrics and events; `levels` of shares are in percent.

    A centralized training is one, too.
    """
    if is_central(folder):
        return read_central(folder)
    record = read_record(folder)
    experiment = read_experiment(folder / "experiment.toml")
    lines = read_metrics(folder / "metrics.jsonl")
    stage = experiment.evaluation.personal_stage
    task = task_of(experiment)
    if levels is not None and task.main.share:
        levels = [level / 100 for level in levels]
    summary = summarize(lines, task, stage, levels)
    return RunData(
        name=folder.name,
        experiment=experiment,
        finished=bool(record.get("finished")),
        lines=lines,
        events=read_events(folder / "events.jsonl"),
        summary=summary,
        computed=_computed(record),
        clients=_clients(folder / "clients.jsonl", task),
    )


def _clients(path: Path, task: Task) -> dict[str, tuple[float, ...]]:
    """The main metric of every client in the last test, by stage; empty if it is not known."""
    last = read_last(path)
    try:
        sums = msgspec.convert((last or {}).get("clients", {}), ClientSums)
    except msgspec.ValidationError as error:
        raise StoreError(f"{path}: {error}") from error
    found = {name: _of_stage(sums, stage, task) for stage, name in STAGES.items()}
    return {name: values for name, values in found.items() if values}


def _of_stage(sums: ClientSums, stage: str, task: Task) -> tuple[float, ...]:
    values = [main_of(one[stage], task) for one in sums.values() if one.get(stage)]
    return tuple(value for value in values if value is not None)


def main_of(sums: Mapping[str, Number], task: Task) -> float | None:
    """The main metric by one client's sums of a stage; None where that is not known."""
    if not {"samples", *task.main.sums} <= sums.keys():
        return None  # sums of many numbers are not written
    return task.main_value(
        (int(sums["samples"]), {name: (float(n),) for name, n in sums.items()})
    )


def check_comparable(runs: Sequence[RunData]) -> None:
    """UsageError if the runs have different main metrics."""
    mains: dict[str, str] = {}
    for run in runs:
        mains.setdefault(run.summary.main, run.name)
    if len(mains) > 1:
        found = ", ".join(f"{main} ({name})" for main, name in mains.items())
        raise UsageError(
            f"the runs have different main metrics: {found}; name those to be compared"
        )


def read_metrics(path: Path) -> tuple[MetricsLine, ...]:
    """The lines of a run's metrics.jsonl."""
    try:
        return parse_lines(read_records(path))
    except msgspec.ValidationError as error:
        raise StoreError(f"{path}: {error}") from error


def read_events(path: Path) -> tuple[Fact, ...]:
    """The facts of a run's events.jsonl."""
    found = []
    for number, record in enumerate(read_records(path), start=1):
        try:
            found.append(parse(record))
        except msgspec.ValidationError as error:
            raise StoreError(f"{path}, line {number}: {error}") from error
    return tuple(found)


def read_reference(path: Path) -> Reference:
    """A file of published numbers."""
    _, table = read_table(path, "docs/reporting.md shows how to write one")
    try:
        return parse_reference(table)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _computed(record: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    try:
        return msgspec.convert(record.get("computed", {}), dict[str, tuple[int, ...]])
    except msgspec.ValidationError:
        return {}  # a report does not fail for that


def read_record(folder: Path) -> dict[str, Any]:
    """What run.json says, of any format."""
    try:
        return msgspec.json.decode((folder / "run.json").read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        raise StoreError(f"{folder} is not a run folder: {error}") from error
