"""A cluster of two workers on two cores: a run of whose clients it takes the turns, against two
processes of our own; a sweep whose runs it takes, against one run after another."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from bench.figures import Effort, Figure, figure, interleaved, median, rounded
from bench.testbed import round_times, serve, write_experiment

SECONDS = 1200.0
RUNS = 12
CLUSTER = ("--dask", "local:2")


def measure(folder: Path, effort: Effort) -> list[Figure]:
    """Two figures."""
    return [_rounds(folder / "rounds", effort), _sweep(folder / "sweep", effort)]


def _rounds(folder: Path, effort: Effort) -> Figure:
    table: dict[str, dict[str, Any]] = {
        "experiment": {"rounds": effort.pick(9, 3)},
        "model": {"name": "convnet"},
        "data": {"clients": 30, "partition": "iid"},
        "training": {"epochs": 5, "batch_size": 20},
        "selection": {"rate": 0.2},
        "evaluation": {"every": 10_000, "stages": ["G"]},
    }
    experiment = write_experiment(folder / "experiment.toml", table)

    def seconds(name: str, *how: str) -> float:
        run = f"{name}-{len(list(folder.glob(f'{name}-*')))}"
        where = ("--runs", str(folder), "--run", run)
        serve("simulate", str(experiment), *where, *how, seconds=SECONDS)
        return median(round_times(folder / run))

    found = interleaved(
        {
            "processes": lambda: seconds("processes", "--processes", "2"),
            "dask": lambda: seconds("dask", *CLUSTER),
        },
        effort.pick(5, 1),
    )
    return figure(
        "cluster",
        "rounds of simulate --dask local:2: ConvNet, 30 clients, 6 per round",
        against="simulate --processes 2",
        value=_ratio(found["processes"], found["dask"]),
        limit=("at least", 0.9),
        details={name: rounded(values) for name, values in found.items()},
    )


def _sweep(folder: Path, effort: Effort) -> Figure:
    table: dict[str, dict[str, Any]] = {
        "experiment": {"name": "s", "rounds": effort.pick(20, 2)},
        "model": {"name": "dnn"},
        "data": {"clients": 20},
        "training": {"epochs": 5},
    }
    experiment = write_experiment(folder / "experiment.toml", table)
    runs = effort.pick(RUNS, 2)

    def seconds(name: str, *how: str) -> float:
        place = folder / f"{name}-{len(list(folder.glob(f'{name}-*')))}"
        began = time.monotonic()
        words = (str(experiment), "--seeds", f"1-{runs}", "--runs", str(place))
        serve("sweep", *words, *how, seconds=SECONDS)
        return time.monotonic() - began

    found = interleaved(
        {
            "one by one": lambda: seconds("here", "--simulate"),
            "dask": lambda: seconds("dask", *CLUSTER),
        },
        effort.pick(3, 1),
    )
    return figure(
        "cluster",
        f"a sweep of {runs} small runs with --dask local:2, from start to end",
        against="the same sweep with --simulate, one after another",
        value=_ratio(found["one by one"], found["dask"]),
        limit=("at least", 1.7),
        details={name: rounded(values) for name, values in found.items()},
    )


def _ratio(before: list[float], after: list[float]) -> float:
    """The middle one of the ratios of neighbours: what disturbs both disturbs no ratio."""
    return median([one / other for one, other in zip(before, after, strict=True)])
