"""Whole rounds of `fl-server simulate`, against Flower's simulation engine (Ray).

The same clients with the same samples, the same networks, batches and cores; without tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from bench.figures import Effort, Figure, figure, median, rounded
from bench.flower import flower_packages
from bench.testbed import ROOT, round_times, serve, write_experiment
from common.config import Experiment
from common.data.shards import ShardSet
from common.experiment.file import load_experiment

CLIENTS, SELECTED, PROCESSES, EPOCHS, BATCH = 100, 10, 2, 5, 20
SECONDS = 600.0
AGAINST = f"Flower's simulation engine, {PROCESSES} cores"


def measure(folder: Path, effort: Effort) -> list[Figure]:
    """How many times faster we are with each network, or why it was not measured."""
    packages = flower_packages()
    figures = []
    for model in ("convnet", "dnn"):
        what = (
            f"whole rounds of simulate: {model}, {CLIENTS} clients, {SELECTED} per round, "
            "times faster"
        )
        if not (packages / "ray").is_dir():
            why = f"not measured: flwr[simulation] is not installed in {packages}"
            figures.append(
                Figure("flower_simulation", what, AGAINST, "at least 1", None, None, why)
            )
            continue
        try:
            figures.append(_measure(folder / model, model, what, packages, effort))
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            why = f"not measured: Flower did not run here: {error}"
            figures.append(
                Figure("flower_simulation", what, AGAINST, "at least 1", None, None, why)
            )
    return figures


def _measure(folder: Path, model: str, what: str, packages: Path, effort: Effort) -> Figure:
    rounds = effort.pick(12, 3)
    file = write_experiment(folder / "x.toml", _table(model, rounds))
    ours: list[float] = []
    peers: list[float] = []
    for at in range(effort.pick(2, 1)):
        run = f"r{at}"
        words = ("simulate", str(file), "--processes", str(PROCESSES), "--run", run)
        serve(*words, "--runs", str(folder / "runs"), seconds=SECONDS)
        ours += round_times(folder / "runs" / run)
        _write_shards(folder / "shards", load_experiment(file), folder / "runs" / ".shards")
        peers += _flower(folder, model, packages, rounds)
    return figure(
        "flower_simulation",
        what,
        against=AGAINST,
        value=median(peers) / median(ours),
        limit=("at least", 1.0),
        details={"seconds": rounded(ours), "Flower's seconds": rounded(peers)},
    )


def _table(model: str, rounds: int) -> dict[str, dict[str, object]]:
    return {
        "experiment": {"rounds": rounds + 1},
        "model": {"name": model},
        "data": {"clients": CLIENTS, "partition": "iid"},
        "training": {"epochs": EPOCHS, "batch_size": BATCH},
        "selection": {"rate": SELECTED / CLIENTS},
        "evaluation": {"every": 10_000, "stages": ["G"]},
    }


def _write_shards(folder: Path, experiment: Experiment, made: Path) -> None:
    """Each client's training samples, for Flower's clients."""
    folder.mkdir(parents=True, exist_ok=True)
    shards = ShardSet(made, experiment)
    shards.ensure(range(CLIENTS))
    for client in range(CLIENTS):
        train = shards.load(client).train
        np.savez(folder / f"{client}.npz", images=train.inputs[0], labels=train.targets)


def _flower(folder: Path, model: str, packages: Path, rounds: int) -> list[float]:
    """Seconds of Flower's rounds, without the first."""
    out = folder / "flower.json"
    settings = {
        "model": model,
        "clients": CLIENTS,
        "selected": SELECTED,
        "processes": PROCESSES,
        "epochs": EPOCHS,
        "batch": BATCH,
        "rounds": rounds + 1,
        "shards": str(folder / "shards"),
        "out": str(out),
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    env = {**os.environ, "PYTHONPATH": str(packages), "FLWR_TELEMETRY_ENABLED": "0"}
    env |= {"RAY_USAGE_STATS_ENABLED": "0", "FLWR_HOME": str(folder / "home")}
    program = ROOT / "bench" / "flower_simulation_app.py"
    done = subprocess.run(
        [sys.executable, str(program), str(folder / "settings.json")],
        env=env,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode or not out.exists():
        raise RuntimeError((done.stdout + done.stderr).strip()[-300:])
    found: list[float] = json.loads(out.read_text())
    return found[1:]
