"""Labs for measurements: a broker and boards as `fl-server lab` has them, round times."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from broker.config import BrokerConfig
from broker.process import Broker
from common.access.address import Address
from common.config import Experiment
from common.experiment.file import parse_experiment, write_text
from common.program.ports import free_port
from fl_server.run.journal import read_records

ROOT = Path(__file__).resolve().parent.parent
PROTOCOL_ONLY: Mapping[str, Mapping[str, Any]] = {
    "algorithm": {"name": "bench.echo:echo"},
    "evaluation": {"every": 10_000, "stages": ["G"]},
}


def environment() -> dict[str, str]:
    """Our own, with this checkout first on the path: boards must find `bench.echo`."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


def write_experiment(path: Path, table: Mapping[str, Mapping[str, Any]]) -> Path:
    """An experiment file with these settings."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(write_text(parse_experiment({k: dict(v) for k, v in table.items()})))
    return path


def run_lab(
    folder: Path, table: Mapping[str, Mapping[str, Any]], *, boards: int, seconds: float
) -> Path:
    """Run an experiment in a lab of its own; the run's folder."""
    experiment = write_experiment(folder / "experiment.toml", table)
    where = ("--boards", str(boards), "--runs", str(folder), "--run", "run")
    serve("lab", str(experiment), *where, seconds=seconds)
    return folder / "run"


def serve(*words: str, seconds: float, program: str = "fl_server") -> str:
    """Run `fl-server` with these words; what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", program, *words, "--plain"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"fl-server {words[0]} failed: {done.stderr[-2000:]}")
    return done.stdout


def round_times(run: Path) -> list[float]:
    """Seconds from the opening of each round to that of the next, in order.

    The first round (boards get ready, everybody tests) is left out.
    """
    opened = [e["time"] for e in read_records(run / "events.jsonl") if _opens(e)]
    return [after - before for before, after in pairwise(opened[1:])]


def _opens(event: Mapping[str, Any]) -> bool:
    return bool(event["event"] == "round_opened")


@contextmanager
def process(*arguments: str, **more: Any) -> Iterator[subprocess.Popen[bytes]]:  # noqa: ANN401
    """A Python process that ends with the block."""
    with subprocess.Popen([sys.executable, *arguments], env=environment(), **more) as started:
        try:
            yield started
        finally:
            started.terminate()
            try:
                started.wait(10)
            except subprocess.TimeoutExpired:
                started.kill()


@contextmanager
def own_broker(folder: Path) -> Iterator[Address]:
    """A broker without boards."""
    with Broker(BrokerConfig(port=free_port()), folder) as broker:
        yield Address(broker.host, broker.port)


def coordinate(runs: Path, name: str, experiment: Experiment, address: Address) -> Path:
    """Coordinate a run on a broker whose boards are there, as `fl-server run` does it."""
    runs.mkdir(parents=True, exist_ok=True)
    file = runs / f"{name}.toml"
    file.write_text(write_text(experiment))
    where = ("--broker", str(address), "--runs", str(runs), "--run", name)
    serve("run", str(file), *where, seconds=600)
    return runs / name
