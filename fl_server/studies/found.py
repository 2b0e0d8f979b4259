"""What is there of a study: its runs on disk, finished or on their way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType

from common.config import Experiment
from common.data.dataset import info_of
from common.errors import FedbedError, StoreError
from common.experiment.file import load_experiment
from common.experiment.tasks import task_of
from common.tasks.task import resolved
from fl_server.reports.run_data import RunData
from fl_server.reports.runs import read_run
from fl_server.run.journal import read_records
from fl_server.run.metrics.summary import summarize
from fl_server.studies.runs import FoundRun, StudyRun
from fl_server.watch.facts.lines import parse_line


def find_runs(plan: Sequence[StudyRun], runs: Path) -> list[FoundRun]:
    """Every run of a plan, with what its folder has."""
    return [FoundRun(run, _read(run, runs / run.name)) for run in plan]


def _read(run: StudyRun, folder: Path) -> RunData | None:
    if not (folder / "experiment.toml").exists():
        return None
    found = read_central(folder) if run.central else read_run(folder)
    return found if is_same(found.experiment, run.experiment) else None


def is_same(one: Experiment, other: Experiment) -> bool:
    """Whether two experiments have the same settings, whatever they are called."""
    return without_name(one) == without_name(other)


def without_name(experiment: Experiment) -> Experiment:
    """An experiment without what it is called, and without the folder that it starts from.

    Runs from before there were tasks have none in their files.
    """
    plain = msgspec.structs.replace(experiment.experiment, name="any")
    start = "/".join(Path(experiment.model.init_weights).parts[-2:])
    model = msgspec.structs.replace(experiment.model, init_weights=start)
    task = resolved(experiment.task, info_of(experiment.data).kind)
    return msgspec.structs.replace(experiment, experiment=plain, model=model, task=task)


def find_alike(run: StudyRun, runs: Path) -> Path | None:
    """The folder of a finished run with these settings, whatever it is called."""
    own = runs / run.name
    others = sorted(path.parent for path in runs.glob("*/experiment.toml"))
    for folder in (own, *others):
        finished = "model.safetensors" if run.central else "summary.json"
        if (folder / finished).exists() and _has_settings(folder, run):
            return folder
    return None


def _has_settings(folder: Path, run: StudyRun) -> bool:
    try:
        return is_same(load_experiment(folder / "experiment.toml"), run.experiment)
    except FedbedError:
        return False  # of another version, or of an algorithm that is not here


class _Epoch(msgspec.Struct, frozen=True):
    epoch: int
    accuracy: float
    train_loss: float
    validation: float | UnsetType = UNSET


def read_central(folder: Path) -> RunData:
    """A centralized training as a run whose rounds are epochs, up to the epoch that counts."""
    try:
        epochs = msgspec.convert(read_records(folder / "metrics.jsonl"), list[_Epoch])
    except msgspec.ValidationError as error:
        raise StoreError(f"{folder / 'metrics.jsonl'}: {error}") from error
    experiment = load_experiment(folder / "experiment.toml")
    finished = len(epochs) == experiment.central.epochs
    chosen = max(epochs, key=_validation, default=None)
    if chosen is not None and chosen.validation is not UNSET:
        epochs = [one for one in epochs if one.epoch <= chosen.epoch]
    lines = tuple(
        parse_line(
            {
                "round": one.epoch,
                "train_loss": one.train_loss,
                "accuracy_global": one.accuracy,
                "tested_clients": 1,
            }
        )
        for one in epochs
    )
    return RunData(
        name=folder.name,
        experiment=experiment,
        finished=finished,
        lines=lines,
        events=(),
        summary=summarize(lines, task_of(experiment)),
    )


def _validation(line: _Epoch) -> float:
    return line.validation if isinstance(line.validation, float) else float(line.epoch)
