"""Whole rounds in a lab with 2 boards, against the loop of `training.py` alone in 2 processes.

30 clients, 6 per round. A round is as slow as the board with the most samples to train, with
the network or without it; the loop alone is given the same shares of the same clients.
"""

from __future__ import annotations

from pathlib import Path

from bench.figures import Effort, Figure, figure, median, rounded
from bench.testbed import round_times, run_lab
from bench.training import rates, read_rates
from fl_server.run.journal import read_records

CLIENTS, SELECTED, BOARDS, EPOCHS = 30, 6, 2, 5


def measure(folder: Path, effort: Effort) -> list[Figure]:
    """How close whole rounds come to training alone."""
    found: list[float] = []
    details: dict[str, object] = {}
    for at in range(effort.pick(3, 1)):
        run = run_lab(
            folder / f"lab-{at}", _experiment(effort.pick(8, 3)), boards=BOARDS, seconds=600
        )
        rate = _loops_alone(folder / f"loops-{at}", effort)
        ideal, real = _ideal_seconds(run, rate), round_times(run)
        found.append(sum(ideal) / sum(real))
        details[f"lab {at}"] = rounded(real)
        details[f"loop alone {at}"] = rounded(ideal)
    return [
        figure(
            "rounds",
            "whole rounds: ConvNet, 30 clients, 6 per round, 2 boards on 2 cores",
            against="the plain loop alone on the same clients, 2 processes",
            value=median(found),
            limit=("at least", 0.90),
            details={**details, "ratios": rounded(found)},
        )
    ]


def _experiment(rounds: int) -> dict[str, dict[str, object]]:
    return {
        "experiment": {"rounds": rounds + 1, "grace": "forever"},
        "model": {"name": "convnet"},
        "data": {"clients": CLIENTS, "partition": "iid"},
        "training": {"epochs": EPOCHS, "batch_size": 20},
        "selection": {"rate": SELECTED / CLIENTS},
        "evaluation": {"every": 10_000, "stages": ["G"]},
    }


def _loops_alone(folder: Path, effort: Effort) -> float:
    """Samples per second of one of two loops side by side."""
    repeats = effort.pick(6, 3)
    both = [rates(folder / str(at), repeats, "plain")[0] for at in range(BOARDS)]
    return median([rate for process in both for rate in read_rates(process)["plain"]])


def _ideal_seconds(run: Path, rate: float) -> list[float]:
    """For each round but the first: its largest share of samples at that rate."""
    lines = [line for line in read_records(run / "metrics.jsonl") if line.get("clients")]
    found = []
    for line in lines[1:]:
        each = line["samples"] / len(line["clients"]) * EPOCHS
        first = sum(1 for client in line["clients"] if client < CLIENTS // BOARDS)
        found.append(max(first, len(line["clients"]) - first) * each / rate)
    return found
