"""E: peak memory of the coordinator while 100 updates of 25 MB come in one round."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.figures import Effort, Figure, figure
from bench.testbed import PROTOCOL_ONLY, environment, own_broker, process, write_experiment

MODEL, BOARDS = 25_000_000, 4
ALLOWED = 4 * MODEL + 100_000_000


def measure(folder: Path, effort: Effort) -> list[Figure]:
    """The row."""
    clients = effort.pick(100, 8)
    experiment = write_experiment(
        folder / "experiment.toml",
        {
            **PROTOCOL_ONLY,
            "experiment": {"rounds": 1, "grace": "forever"},
            "model": {"name": "dnn", "hidden": MODEL // (4 * 795)},
            "data": {"clients": clients, "partition": "iid"},
        },
    )
    with own_broker(folder / "broker") as address:
        port = str(address.port)
        with process("-m", "bench.light", port, "0", str(BOARDS), str(clients // BOARDS)):
            peak = _coordinator_peak(folder, experiment, port)
    return [
        figure(
            "E",
            f"coordinator's peak memory, {clients} updates of 25 MB in one round",
            against="4 models + 100 MB",
            value=peak / ALLOWED,
            limit=("at most", 1.0),
            details={"peak MB": round(peak / 1e6), "allowed MB": round(ALLOWED / 1e6)},
        )
    ]


def _coordinator_peak(folder: Path, experiment: Path, port: str) -> int:
    """Bytes; asked of the process itself, at its end."""
    words = ["run", str(experiment), "--broker", f"127.0.0.1:{port}", "--plain"]
    words += ["--runs", str(folder / "runs"), "--run", "r"]
    done = subprocess.run(
        [sys.executable, "-m", "bench.peak", *words],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the coordinator failed: {done.stderr[-1000:]}")
    return int(done.stdout.split()[-1])
