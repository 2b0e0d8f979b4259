"""What is there of a study: its runs on disk, finished or on their way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from common.config import Experiment
from common.data.dataset import info_of
from common.errors import FedbedError
from common.experiment.file import load_experiment
from common.tasks.task import resolved
from fl_server.reports.central_run import read_central
from fl_server.reports.run_data import RunData
from fl_server.reports.runs import read_run
from fl_server.studies.runs import FoundRun, StudyRun


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
