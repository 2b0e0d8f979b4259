"""Runs a study: what is trained centrally, then all runs that are not finished."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from common.disk.lock import FolderLock
from common.program.malloc import keep_buffers
from common.tasks.metrics import LOSS
from fl_server import launch
from fl_server.run.provenance import record_machine
from fl_server.studies.runs import StudyRun
from fl_server.sweeps.grid import Planned
from fl_server.sweeps.runner import Outcome, Runner, run_all


def grid_of(plan: Sequence[StudyRun]) -> list[Planned]:
    """The federated runs, as those of a sweep."""
    return [
        Planned(run.name, run.experiment, Path(run.code)) for run in plan if not run.central
    ]


def run_study(
    options: launch.RunOptions,
    plan: Sequence[StudyRun],
    runner: Runner,
    after: Callable[[], object],
) -> Outcome:
    """Do what is not yet finished; `after` is called after every run."""
    return run_all(options, grid_of(plan), runner, after)


def run_central(plan: Sequence[StudyRun], runs: Path, write: Callable[[str], None]) -> None:
    """The centralized trainings; one that was killed goes on after its last whole epoch."""
    for run in plan:
        folder = runs / run.name
        if not run.central or (folder / "model.safetensors").exists():
            continue
        from fl_server.central.baseline import Central  # imports torch

        keep_buffers()
        with FolderLock(folder, f"the training {run.name!r}"):
            record_machine(folder)
            total = run.experiment.central.epochs
            Central(folder, run.experiment).run(
                runs / ".shards",
                lambda line, name=run.name, total=total: write(  # type: ignore[misc]
                    f"{name}: epoch {line.epoch}/{total}, test loss {line.tests[LOSS]:.3f}"
                ),
            )
