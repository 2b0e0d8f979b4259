"""python -m bench.epsilon [PICTURE.svg]: accuracy over epsilon on `fmnist-mini`.

500 clients of 20 samples, 250 of them in each of 10 rounds: the same experiment with more and
more noise, and without privacy. Needs fedbed[accounting] and fedbed[plots].
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from pathlib import Path
from typing import Any

from common.experiment.file import parse_experiment
from fl_server.coordinator.local_clients import make_local_clients
from fl_server.coordinator.simulate import Simulation
from fl_server.run.accountant import epsilon
from fl_server.run.journal import read_records
from fl_server.run.noise import Noise
from fl_server.run.store import create_run

CLIENTS, RATE, ROUNDS, CLIP, DELTA = 500, 0.5, 10, 0.5, 1e-4
NOISES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


def accuracy(folder: Path, name: str, privacy: dict[str, Any]) -> float:
    """The global accuracy after the last round."""
    table: dict[str, Any] = {
        "experiment": {"rounds": ROUNDS},
        "model": {"name": "dnn", "hidden": 16},
        "data": {"clients": CLIENTS, "partition": "iid", "min_size": 2},
        "training": {"epochs": 5, "batch_size": 10, "learning_rate": 0.05},
        "selection": {"rate": RATE},
        "evaluation": {"every": ROUNDS, "stages": ["G"]},
        "privacy": privacy,
    }
    store = create_run(folder, name, parse_experiment(table))
    shards = folder / "shards"
    Simulation(
        store, clients=make_local_clients(1), shards=shards, observe=lambda _: None
    ).run()
    return float(read_records(store.folder / "metrics.jsonl")[-1]["accuracy_global"])


def main() -> None:
    """Print a line for each noise, and draw them."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        free = accuracy(root, "free", {})
        clipped = accuracy(root, "clipped", {"clip": CLIP})
        sys.stdout.write(f"without privacy {free:.4f}, clipped only {clipped:.4f}\n")
        fixed, poisson, reached = [], [], []
        for noise in NOISES:
            wanted = {"clip": CLIP, "noise": noise, "delta": DELTA}
            reached.append(accuracy(root, f"noise-{noise:g}", wanted))
            spent = Noise(CLIP, noise, DELTA, "fixed", round(RATE * CLIENTS), CLIENTS)
            fixed.append(epsilon(spent, ROUNDS) or 0.0)
            poisson.append(epsilon(dataclasses.replace(spent, sampling="poisson"), ROUNDS) or 0)
            sys.stdout.write(
                f"noise {noise:g}: accuracy {reached[-1]:.4f}, epsilon {fixed[-1]:.2f} "
                f"(poisson {poisson[-1]:.2f})\n"
            )
            sys.stdout.flush()
    if len(sys.argv) > 1:
        draw(Path(sys.argv[1]), reached, {"fixed": fixed, "poisson": poisson}, free)


def draw(path: Path, reached: list[float], spent: dict[str, list[float]], free: float) -> None:
    """Accuracy over epsilon, for both ways to account."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "epsilon"
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for name, marker in (("fixed", "o"), ("poisson", "s")):
        axes.plot(spent[name], [100 * value for value in reached], marker=marker, label=name)
    axes.axhline(100 * free, linestyle="--", color="grey", label="without privacy")
    axes.set_xscale("log")
    axes.set_xlabel(f"epsilon for delta = {DELTA:g}")
    axes.set_ylabel("accuracy in %")
    axes.set_ylim(0, 100)
    axes.grid(alpha=0.3)
    axes.legend(title="privacy.sampling")
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
