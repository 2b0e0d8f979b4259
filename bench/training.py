"""Local training inside a daemon, against the fastest plain torch loop on the same core."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench.figures import Effort, Figure, figure, median, rounded
from bench.testbed import environment
from common.worker.children import TUNING

CLIENTS = 12


def rates(folder: Path, repeats: int, *kinds: str) -> list[subprocess.Popen[str]]:
    """One process that measures these kinds of loops, as a training process is started."""
    words = [str(folder), str(CLIENTS), "1", str(repeats), *kinds]
    return [
        subprocess.Popen(
            [sys.executable, "-m", "bench.loops", *words],
            env={**environment(), **TUNING},
            stdout=subprocess.PIPE,
            text=True,
        )
    ]


def read_rates(process: subprocess.Popen[str]) -> dict[str, list[float]]:
    """Samples per second by kind, without the first of each, which warms up."""
    output, _ = process.communicate(timeout=600)
    if process.returncode:
        raise RuntimeError("the loops failed; their output is above")
    found: dict[str, list[float]] = {}
    for line in output.splitlines():
        item = json.loads(line)
        found.setdefault(item["kind"], []).append(item["rate"])
    return {kind: values[1:] for kind, values in found.items()}


def measure(folder: Path, effort: Effort) -> list[Figure]:
    """How close a training process comes to the plain loop."""
    (process,) = rates(folder, effort.pick(12, 4), "daemon", "plain")
    found = read_rates(process)
    return [
        figure(
            "training",
            "local training in a daemon: ConvNet, Fashion-MNIST, batch 20, samples/s per core",
            against="the fastest plain torch loop",
            value=median(found["daemon"]) / median(found["plain"]),
            limit=("at least", 0.95),
            details={kind: rounded(values) for kind, values in found.items()},
        )
    ]
