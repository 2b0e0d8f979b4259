"""A centralized training as a run like others: its rounds are epochs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from common.errors import StoreError
from common.experiment.file import load_experiment
from common.experiment.tasks import task_of
from fl_server.reports.run_data import RunData
from fl_server.run.journal import Record, read_records
from fl_server.run.metrics.summary import summarize
from fl_server.run.model.file import NAME
from fl_server.watch.facts.lines import MetricsLine, parse_line


def is_central(folder: Path) -> bool:
    """Whether a folder is of a centralized training."""
    return (folder / "experiment.toml").exists() and not (folder / "run.json").exists()


def read_central(folder: Path) -> RunData:
    """A centralized training, up to the epoch whose model counts."""
    experiment = load_experiment(folder / "experiment.toml")
    path, task = folder / "metrics.jsonl", task_of(experiment)
    epochs = read_records(path)
    finished = (folder / NAME).exists() or len(epochs) == experiment.central.epochs
    try:
        chosen = _chosen(epochs, lower=task.main.lower)
        names = [metric.name for metric in task.metrics]
        lines = tuple(_line(epoch, names) for epoch in chosen)
    except (msgspec.ValidationError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is not of a centralized training: {error}") from error
    return RunData(
        name=folder.name,
        experiment=experiment,
        finished=finished,
        lines=lines,
        events=(),
        summary=summarize(lines, task, experiment.evaluation.personal_stage),
        central=True,
    )


def _chosen(epochs: Sequence[Record], *, lower: bool) -> Sequence[Record]:
    """The epochs up to the best one in validation; all, if nothing was held back."""
    if not all("validation" in epoch for epoch in epochs) or not epochs:
        return epochs
    choose = min if lower else max
    best = choose(epochs, key=lambda epoch: float(epoch["validation"]))
    return [epoch for epoch in epochs if epoch["epoch"] <= best["epoch"]]


def _line(epoch: Record, names: Sequence[str]) -> MetricsLine:
    tests = {f"{name}_global": epoch[name] for name in names if name in epoch}
    return parse_line(
        {
            "round": epoch["epoch"],
            "train_loss": epoch["train_loss"],
            "tested_clients": 1,
            **tests,
        }
    )
