"""What one coordinator and one Mosquitto carry: light boards with a client each, all selected.

    python -m bench.fleet 100 500 1000 2000      writes docs/fleet.json and the figure of it

All boards connect at once, at a signal; then every round has all of them. Boards are on this
machine too, so times are those of everything together; processor time and memory of the
coordinator and of Mosquitto are their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure as Picture

from bench.figures import median
from bench.light import light_boards
from bench.testbed import ROOT, environment, process, round_times, write_experiment
from broker.config import BrokerConfig
from broker.process import Broker
from common.program.ports import free_port
from fl_server.run.journal import read_records

TOGETHER = 1000  # light boards in one process
ROUNDS = 3
SECONDS = 1200.0  # for one size
TABLE: dict[str, dict[str, Any]] = {
    "algorithm": {"name": "bench.echo:echo"},
    "evaluation": {"every": 10_000, "stages": ["G"]},
    "experiment": {"rounds": ROUNDS, "grace": "forever"},
    "model": {"name": "dnn"},
    "selection": {"rate": 1.0},
}
OUT = ROOT / "docs" / "fleet.json"
PICTURE = ROOT / "docs" / "pictures" / "fleet.svg"


@dataclass(frozen=True, slots=True)
class Row:
    """One size: seconds, processor seconds per round, and memory at its highest."""

    boards: int
    start_seconds: float
    round_seconds: float
    coordinator_cpu: float
    broker_cpu: float
    coordinator_mb: float
    broker_mb: float


def measure(size: int, folder: Path) -> Row:
    """One broker, one coordinator, so many boards."""
    table = {**TABLE, "data": {"clients": size, "partition": "iid"}}
    file = write_experiment(folder / "experiment.toml", table)
    events = folder / "run" / "events.jsonl"
    with Broker(BrokerConfig(port=free_port()), folder / "broker") as broker, ExitStack() as at:
        groups = [
            at.enter_context(light_boards(broker.port, first, min(TOGETHER, size - first)))
            for first in range(0, size, TOGETHER)
        ]
        where = ("--runs", str(folder), "--run", "run", "--broker", f"127.0.0.1:{broker.port}")
        words = ("-m", "fl_server", "run", str(file), *where, "--plain")
        coordinator = at.enter_context(process(*words, stdout=subprocess.DEVNULL))
        _wait(coordinator, lambda: len(_opened(events, "started")) == 1)
        signal = time.time()
        for group in groups:
            group.go()
        pids = (coordinator.pid, broker.pid)
        _wait(coordinator, lambda: len(_opened(events, "round_opened")) >= 2)
        before = [_cpu(pid) for pid in pids]
        _wait(coordinator, lambda: len(_opened(events, "round_opened")) >= ROUNDS)
        used = [
            (_cpu(pid) - then) / (ROUNDS - 2) for pid, then in zip(pids, before, strict=True)
        ]
        memory = [_peak_mb(pid) for pid in pids]
    first = _opened(events, "round_opened")[0] - signal
    return Row(size, first, median(round_times(folder / "run")), *used, *memory)


def _wait(running: subprocess.Popen[bytes], done: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not done():
        if time.monotonic() > end or running.poll() is not None:
            raise RuntimeError("the run did not get there")
        threading.Event().wait(0.1)


def _opened(events: Path, kind: str) -> list[float]:
    found = read_records(events) if events.exists() else []
    return [float(event["time"]) for event in found if event["event"] == kind]


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_mb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


def draw(rows: list[Row], path: Path) -> None:
    """Seconds against boards."""
    mpl.rcParams["svg.hashsalt"] = "fedbed"
    picture = Picture(figsize=(7, 4), layout="constrained")
    axes = picture.subplots()
    boards = [row.boards for row in rows]
    lines = {
        "start: all connect at once": [row.start_seconds for row in rows],
        "a round, everything on two cores": [row.round_seconds for row in rows],
        "processor time of the coordinator, per round": [row.coordinator_cpu for row in rows],
        "processor time of Mosquitto, per round": [row.broker_cpu for row in rows],
    }
    for name, values in lines.items():
        axes.plot(boards, values, marker="o", label=name)
    axes.set(xscale="log", yscale="log", xlabel="boards, all selected", ylabel="seconds")
    axes.set_xticks(boards, [str(size) for size in boards])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    picture.savefig(path, metadata={"Date": None})


def main(words: list[str]) -> None:
    """Measure these sizes."""
    os.environ.update(environment())
    rows: list[Row] = []
    for size in map(int, words):
        with tempfile.TemporaryDirectory(prefix="fedbed-fleet-") as folder:
            rows.append(measure(size, Path(folder)))
        sys.stdout.write(json.dumps(asdict(rows[-1])) + "\n")
        sys.stdout.flush()
        OUT.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
        draw(rows, PICTURE)


if __name__ == "__main__":
    main(sys.argv[1:])
