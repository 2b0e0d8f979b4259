"""A lab of 30 boards: how long its first round takes, and its training processes' memory; and
a board that was killed, from its start to its training."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.figures import Effort, Figure, figure, median, rounded
from bench.testbed import run_lab, serve, write_experiment
from fl_server.lab.lab import descendants
from fl_server.run.journal import read_records

ROUNDS = 6
SECONDS = 600.0
SAMPLE_SECONDS = 0.2
KILL = """
[[fault]]
kind = "kill"
target = "b1"
round = 2
seconds = 0
"""


def measure(folder: Path, effort: Effort) -> list[Figure]:
    """Three figures."""
    boards = effort.pick(30, 4)
    table: dict[str, dict[str, Any]] = {
        "experiment": {"rounds": ROUNDS, "grace": "forever"},
        "model": {"name": "dnn"},
        "data": {"clients": boards},
        "training": {"epochs": 1},
    }
    with _memory_of_children() as memory:
        run = run_lab(folder / "lab", table, boards=boards, seconds=SECONDS)
    first, *later = [e["seconds"] for e in _events(run, "round_closed")]
    back = [_restarted(folder / f"killed-{at}") for at in range(effort.pick(3, 1))]
    return [
        figure(
            "start",
            f"first round of a lab of {boards} boards",
            against="a later round",
            value=first / median(later),
            limit=("at most", 5.0),
            details={"first": first, "later": rounded(later)},
        ),
        figure(
            "start",
            f"memory of {boards} training processes and their parent, GB",
            against="1.5 GB",
            value=max(memory) / 1e9,
            limit=("at most", 1.5),
        ),
        Figure(
            "start",
            "board killed with -9, from its next start to an epoch of training, seconds",
            against="",
            must="(no mark)",
            value=round(median(back), 3),
            reached=None,
            details={"seconds": rounded(back)},
        ),
    ]


def _events(run: Path, kind: str) -> list[dict[str, Any]]:
    return [e for e in read_records(run / "events.jsonl") if e["event"] == kind]


@contextmanager
def _memory_of_children() -> Iterator[list[int]]:
    """Bytes of all forked processes below this one and their parent, shared pages once."""
    found, done = [0], threading.Event()

    def look() -> None:
        while not done.wait(SAMPLE_SECONDS):
            with suppress(OSError):  # one has ended while it was looked at
                found.append(sum(_share(pid) for pid in descendants(os.getpid())))

    looker = threading.Thread(target=look)
    looker.start()
    try:
        yield found
    finally:
        done.set()
        looker.join()


def _share(pid: int) -> int:
    """Its proportional share of memory, if it is a fork server or a fork of one."""
    try:
        if b"common.worker" not in Path(f"/proc/{pid}/cmdline").read_bytes():
            return 0
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line[:4] == "Pss:"), 0)


def _restarted(folder: Path) -> float:
    """Seconds from the start of a board that was killed while it trained to its next epoch."""
    table: dict[str, dict[str, Any]] = {
        "experiment": {"rounds": 3, "grace": "forever"},
        "model": {"name": "dnn"},
        "data": {"clients": 4},
        "training": {"epochs": 10},
    }
    experiment = write_experiment(folder / "experiment.toml", table)
    script = folder / "kill.toml"
    script.write_text(KILL)
    where = ("--boards", "2", "--runs", str(folder), "--run", "run", "--faults", str(script))
    serve("lab", str(experiment), *where, seconds=SECONDS)
    (fault,) = _events(folder / "run", "fault")
    return float(fault["recovery"])
