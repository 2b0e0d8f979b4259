"""PURE: runs that differ only in their seed belong together; what to call each group."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from common.config import Experiment
from fl_server.reports.run_data import RunData
from fl_server.run.metrics.summary import figure, values

Which: TypeAlias = Literal["best", "last", "mean_last"]
Settings: TypeAlias = Mapping[str, object]  # "section.key" -> value
CENTRALIZED = "centralized"


@dataclass(frozen=True, slots=True)
class Spread:
    """A number over several runs: mean, standard deviation, in how many of how many known."""

    mean: float
    std: float | None
    known: int
    of: int


@dataclass(frozen=True, slots=True)
class Group:
    """Runs of the same settings, one for each seed; `left_out` says which others there are."""

    label: str
    runs: tuple[RunData, ...]
    left_out: tuple[str, ...] = ()

    @property
    def central(self) -> bool:
        """Whether these are centralized trainings, the baseline of the others."""
        return self.runs[0].central

    @property
    def main(self) -> str:
        """The task's main metric."""
        return self.runs[0].summary.main

    @property
    def title(self) -> str:
        """The task's main metric, where a sentence begins."""
        short = self.main in ("mse", "mae", "rmse", "r2")
        return self.main.upper() if short else self.main.capitalize()

    @property
    def shared(self) -> str:
        """The main metric of this group's global models."""
        return f"{self.main}_global"

    @property
    def personal(self) -> str:
        """The main metric of this group's personal models."""
        return f"{self.main}_{self.runs[0].summary.personal_stage.lower()}"

    def by_seed(self, metric: str, which: Which) -> dict[int, float]:
        """The best, last or recent value of a metric, where it is known."""
        return {
            run.seed: float(getattr(found, which))
            for run in self.runs
            if (found := run.summary.figures.get(metric)) is not None
        }

    def spread(self, measure: Callable[[RunData], float | None]) -> Spread | None:
        """A number of each run, over the runs."""
        return spread([measure(run) for run in self.runs])

    def figure(self, metric: str, which: Which) -> Spread | None:
        """The best, last or recent value of a metric, over the runs."""

        def measure(run: RunData) -> float | None:
            found = run.summary.figures.get(metric) or figure(run.lines, metric)
            return None if found is None else float(getattr(found, which))

        return self.spread(measure)

    def curve(self, metric: str) -> list[tuple[int, Spread]]:
        """A metric over the rounds; rounds that not all runs have reached are included."""
        by_round: dict[int, list[float | None]] = defaultdict(list)
        for run in self.runs:
            for round_number, value in values(run.lines, metric):
                by_round[round_number].append(value)
        return [
            (round_number, found)
            for round_number in sorted(by_round)
            if (found := spread(by_round[round_number])) is not None
        ]


def spread(found: Sequence[float | None]) -> Spread | None:
    """Mean and (from two on) sample standard deviation of what is known."""
    known = [value for value in found if value is not None]
    if not known:
        return None
    mean = math.fsum(known) / len(known)
    squares = math.fsum((value - mean) ** 2 for value in known)
    std = math.sqrt(squares / (len(known) - 1)) if len(known) > 1 else None
    return Spread(mean, std, len(known), len(found))


def group_runs(runs: Sequence[RunData]) -> list[Group]:
    """The groups, in the order in which their first runs came; centralized ones are the last.

    Unfinished runs are groups of their own, and a seed counts once.
    """
    found: dict[tuple[bytes, bool, bool], list[RunData]] = {}
    for run in sorted(runs, key=lambda run: run.central):
        settings = msgspec.json.encode(_without_seed(run.experiment))
        found.setdefault((settings, run.finished, run.central), []).append(run)
    members = [_one_per_seed(group) for group in found.values()]
    labels = labels_of([kept[0] for kept, _ in members])
    return [
        Group(label if kept[0].finished else f"{label} (unfinished)", kept, left_out)
        for label, (kept, left_out) in zip(labels, members, strict=True)
    ]


def _one_per_seed(runs: Sequence[RunData]) -> tuple[tuple[RunData, ...], tuple[str, ...]]:
    """Of each seed the run that came furthest, of equal ones the first by name."""
    kept: dict[int, RunData] = {}
    left_out = []
    for run in sorted(runs, key=lambda run: (run.seed, -run.summary.rounds, run.name)):
        if run.seed not in kept:
            kept[run.seed] = run
            continue
        first = kept[run.seed]
        same = "the same model" if run.digest == first.digest else "another model"
        ending = f", with {same}" if run.finished else ""
        left_out.append(f"{run.name} (seed {run.seed} again, as {first.name}{ending})")
    return tuple(kept.values()), tuple(left_out)


def settings_of(experiment: Experiment) -> dict[str, object]:
    """All settings but name and seed, flat; an algorithm's options stand beside its name."""
    flat: dict[str, object] = {}
    for section, inner in msgspec.to_builtins(experiment).items():
        for key, value in {**inner, **inner.get("options", {})}.items():
            flat[f"{section}.{key}"] = value
    for key in ("experiment.name", "experiment.seed", "algorithm.options"):
        flat.pop(key, None)
    return flat


def labels_of(runs: Sequence[RunData]) -> list[str]:
    """Short names: the experiment's if they differ, then the algorithm's, then what differs."""
    names = [run.experiment.experiment.name for run in runs]
    labels = names if len(set(names)) > 1 else ["" for _ in names]
    labels = _distinguished(labels, lambda at: _method(runs[at]))
    flat = [settings_of(run.experiment) for run in runs]
    found = _distinguished(labels, lambda at: _what_differs(at, labels, flat))
    found = [label or name for label, name in zip(found, names, strict=True)]
    return [
        f"{label} ({CENTRALIZED})" if run.central and CENTRALIZED not in label else label
        for label, run in zip(found, runs, strict=True)
    ]


def _method(run: RunData) -> str:
    return CENTRALIZED if run.central else run.experiment.algorithm.name


def _what_differs(at: int, labels: Sequence[str], flat: Sequence[Settings]) -> str:
    same = [other for other, label in zip(flat, labels, strict=True) if label == labels[at]]
    words = [f"{key.rpartition('.')[2]}={flat[at].get(key)}" for key in differences(same)]
    return " ".join(words)


def _distinguished(labels: Sequence[str], addition: Callable[[int], str]) -> list[str]:
    """Labels with something added where several are the same and the addition differs."""
    out = list(labels)
    for label in set(labels):
        same = [at for at, text in enumerate(labels) if text == label]
        if len({addition(at) for at in same}) > 1:
            for at in same:
                out[at] = f"{label} {addition(at)}".strip()
    return out


def differences(settings: Sequence[Settings]) -> list[str]:
    """The keys whose values are not the same everywhere."""
    keys = dict.fromkeys(key for one in settings for key in one)
    return [key for key in keys if len({repr(one.get(key)) for one in settings}) > 1]


def _without_seed(experiment: Experiment) -> Experiment:
    plain = msgspec.structs.replace(experiment.experiment, seed=0)
    return msgspec.structs.replace(experiment, experiment=plain)
