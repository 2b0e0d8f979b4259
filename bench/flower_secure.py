"""Flower's secure aggregation (SecAgg+) with as many clients and a model of the same size.

It runs in Flower's simulation engine, where nothing crosses a network; every client is a
neighbour of every other, and six tenths of them are needed, as in ours.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from bench.flower import SIZE, flower_packages
from bench.testbed import ROOT

PROCESSES = 2
SECONDS = 400.0
AGAINST = f"Flower's SecAgg+, simulation engine, {PROCESSES} cores, no network"


def secure_rounds(folder: Path, clients: int, rounds: int) -> list[float]:
    """Seconds of Flower's rounds, without the first; RuntimeError if it does not run here."""
    packages = flower_packages()
    if not (packages / "ray").is_dir():
        raise RuntimeError(f"flwr[simulation] is not installed in {packages}")
    folder.mkdir(parents=True, exist_ok=True)
    out, file = folder / "flower.json", folder / "settings.json"
    settings = {"clients": clients, "size": SIZE, "rounds": rounds + 1}
    file.write_text(json.dumps({**settings, "processes": PROCESSES, "out": str(out)}))
    env = {**os.environ, "PYTHONPATH": str(packages), "FLWR_TELEMETRY_ENABLED": "0"}
    env |= {"RAY_USAGE_STATS_ENABLED": "0", "FLWR_HOME": str(folder / "home")}
    try:
        done = subprocess.run(
            [sys.executable, str(ROOT / "bench" / "flower_secure_app.py"), str(file)],
            env=env,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        text = f"{rounds + 1} rounds of {clients} clients took longer than {SECONDS:.0f} s"
        raise RuntimeError(text) from error
    if done.returncode or not out.exists():
        raise RuntimeError((done.stdout + done.stderr).strip()[-300:])
    found: list[float] = json.loads(out.read_text())
    return found[1:]
