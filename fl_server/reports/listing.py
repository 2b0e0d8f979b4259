"""The runs of a folder, each in one line: federated ones and centralized baselines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from common.arrays import digest
from common.disk.lock import holder
from common.errors import FedbedError
from common.experiment.file import load_experiment
from common.experiment.tasks import task_of
from fl_server.reports.runs import read_metrics, read_record
from fl_server.run.journal import read_records
from fl_server.run.metrics.summary import figure
from fl_server.run.model.file import NAME, read_model
from fl_server.watch.facts.lines import MainMetric


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run; `best` is of the global main metric, `changed` is seconds since 1970."""

    name: str
    state: str
    algorithm: str
    dataset: str
    seed: int
    done: int
    of: int
    best: float | None
    main: MainMetric
    digest: str
    changed: float


def run_lines(runs: Path) -> tuple[list[RunLine], list[str]]:
    """All runs of a folder, the one changed last at the end; and what could not be read."""
    return Listing(runs).lines()


class Listing:
    """The runs of a folder, looked at again and again: only what has changed is read."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._known: dict[str, tuple[object, RunLine | str]] = {}

    def lines(self, most: int | None = None) -> tuple[list[RunLine], list[str]]:
        """Those changed last, the last one at the end; and what could not be read."""
        stamps = {
            file.parent.name: _stamp(file.parent)
            for file in self._runs.glob("*/experiment.toml")
        }
        newest = sorted(stamps, key=lambda name: (max(stamps[name][1:]), name))
        kept = newest if most is None else newest[-most:]
        self._known = {name: self._line(name, stamps[name]) for name in kept}
        found = [line for _, line in self._known.values() if isinstance(line, RunLine)]
        problems = [text for _, text in self._known.values() if isinstance(text, str)]
        return sorted(found, key=lambda line: (line.changed, line.name)), sorted(problems)

    def _line(self, name: str, stamp: object) -> tuple[object, RunLine | str]:
        known = self._known.get(name)
        if known is not None and known[0] == stamp:
            return known
        try:
            return stamp, _line(self._runs / name)
        except FedbedError as error:
            return stamp, f"{name}: {error}"


def _stamp(folder: Path) -> tuple[int, ...]:
    """Whether somebody works on it, and when each of its files was changed."""
    times = (path.stat().st_mtime_ns for path in sorted(folder.iterdir()) if path.is_file())
    return (bool(holder(folder)), *times)


def _line(folder: Path) -> RunLine:
    experiment = load_experiment(folder / "experiment.toml")
    main = task_of(experiment).main
    central = not (folder / "run.json").exists()
    if central:
        epochs = read_records(folder / "metrics.jsonl")
        done, of = len(epochs), experiment.central.epochs
        values = [line.get(main.name) for line in epochs]
        found = [float(value) for value in values if isinstance(value, int | float)]
        best = (min if main.lower else max)(found, default=None)
        finished = (folder / NAME).exists()
    else:
        lines = read_metrics(folder / "metrics.jsonl")
        done, of = max((line.round for line in lines), default=0), experiment.experiment.rounds
        best_figure = figure(lines, f"{main.name}_global", lower=main.lower)
        best = None if best_figure is None else best_figure.best
        finished = bool(read_record(folder).get("finished"))
    state = "finished" if finished else "running" if holder(folder) else "unfinished"
    return RunLine(
        name=folder.name,
        state=state,
        algorithm="centralized" if central else experiment.algorithm.name,
        dataset=experiment.data.dataset,
        seed=experiment.experiment.seed,
        done=done,
        of=of,
        best=best,
        main=MainMetric(main.name, main.lower, main.share),
        digest=digest(read_model(folder / NAME)) if (folder / NAME).exists() else "",
        changed=max(path.stat().st_mtime for path in folder.iterdir() if path.is_file()),
    )
