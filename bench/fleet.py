"""What one coordinator and one Mosquitto carry: light boards with a client each, all selected.

    python -m bench.fleet 20 100 250 500 1000 2000

All boards connect at once, at a signal; then every round has all of them. Boards are on this
machine too, so times are those of everything together; processor time and memory of the
coordinator and of Mosquitto are their own. What was measured is written to the docs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.figures import median
from bench.fleet_page import Row, write
from bench.light import light_boards
from bench.testbed import environment, process, round_times, write_experiment
from broker.config import BrokerConfig
from broker.process import Broker
from common.program.ports import free_port
from fl_server.run.journal import read_records

TOGETHER = 1000  # light boards in one process
ROUNDS = 5
SECONDS = 240.0  # for one step of one size
TABLE: dict[str, dict[str, Any]] = {
    "algorithm": {"name": "bench.echo:echo"},
    "evaluation": {"every": 10_000, "stages": ["G"]},
    "experiment": {"rounds": ROUNDS, "grace": "forever"},
    "model": {"name": "dnn"},
    "selection": {"rate": 1.0},
}


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
        running = [coordinator, *(group.process for group in groups)]
        _wait(running, lambda: len(_times(events, "started")) == 1)
        signal = time.time()
        for group in groups:
            group.go()
        pids = (coordinator.pid, broker.pid)
        _wait(running, lambda: len(_times(events, "round_opened")) >= 2)
        before = [_cpu(pid) for pid in pids]
        _wait(running, lambda: len(_times(events, "round_opened")) >= ROUNDS)
        after = [_cpu(pid) for pid in pids]
        memory = [_peak_mb(pid) for pid in pids]
        totals = [group.end() for group in groups]
    return Row(
        boards=size,
        connect_seconds=max(total.connect_seconds for total in totals),
        start_seconds=_times(events, "round_opened")[0] - signal,
        round_seconds=median(round_times(folder / "run")),
        coordinator_cpu=(after[0] - before[0]) / (ROUNDS - 2),
        broker_cpu=(after[1] - before[1]) / (ROUNDS - 2),
        coordinator_mb=memory[0],
        broker_mb=memory[1],
        again=sum(total.again for total in totals),
    )


def _wait(running: Sequence[subprocess.Popen[bytes]], done: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not done():
        if time.monotonic() > end or any(one.poll() is not None for one in running):
            raise RuntimeError("the run did not get there")
        threading.Event().wait(0.1)


def _times(events: Path, kind: str) -> list[float]:
    found = read_records(events) if events.exists() else []
    return [float(event["time"]) for event in found if event["event"] == kind]


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_mb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


def main(words: list[str]) -> None:
    """Measure these sizes, and write them to the docs."""
    os.environ.update(environment())
    rows: list[Row] = []
    for size in map(int, words):
        with tempfile.TemporaryDirectory(prefix="fedbed-fleet-") as folder:
            rows.append(measure(size, Path(folder)))
        sys.stdout.write(json.dumps(asdict(rows[-1])) + "\n")
        sys.stdout.flush()
        write(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
