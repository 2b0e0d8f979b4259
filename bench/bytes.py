"""Bytes on the wire per round for each encoding, and what the encodings cost in accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.figures import Effort, Figure, figure, median
from bench.testbed import PROTOCOL_ONLY, run_lab, serve, write_experiment
from common.experiment.file import parse_experiment
from common.experiment.resolve import shapes_of
from fl_server.run.journal import read_records

BOARDS, CLIENTS = 2, 6
LIMITS = {"float32": 1.02, "float16": 0.52, "int8": 0.27}


def measure(folder: Path, effort: Effort) -> list[Figure]:
    """One figure for each encoding."""
    found = []
    for encoding, limit in LIMITS.items():
        table: dict[str, Any] = {
            **PROTOCOL_ONLY,
            "experiment": {"rounds": effort.pick(6, 3), "grace": "forever"},
            "model": {"name": "convnet"},
            "data": {"clients": CLIENTS, "partition": "iid"},
            "communication": {"encoding": encoding},
        }
        run = run_lab(folder / encoding, table, boards=BOARDS, seconds=300)
        share = _share(run, table)
        accuracy = _accuracy(folder / f"accuracy-{encoding}", encoding, effort)
        found.append(
            figure(
                "bytes",
                f"bytes per round in {encoding}, payloads as the coordinator counts them",
                against="(boards + selected clients) x model in float32",
                value=share,
                limit=("at most", limit),
                note=f"accuracy {accuracy:.4f}",
                details={"accuracy after training": accuracy},
            )
        )
    return found


def _share(run: Path, table: dict[str, Any]) -> float:
    shapes = shapes_of(parse_experiment(table)).values()
    model = sum(4 * _product(shape) for shape in shapes)
    lines = [line for line in read_records(run / "metrics.jsonl") if line.get("clients")]
    sent = [float(line["bytes_up"] + line["bytes_down"]) for line in lines[1:]]
    return median(sent) / ((BOARDS + CLIENTS) * model)


def _product(shape: tuple[int, ...]) -> int:
    product = 1
    for length in shape:
        product *= length
    return product


def _accuracy(folder: Path, encoding: str, effort: Effort) -> float:
    """Of the demo's clients after some rounds of real training."""
    rounds = effort.pick(15, 3)
    experiment = write_experiment(
        folder / "experiment.toml",
        {
            "experiment": {"rounds": rounds},
            "model": {"name": "dnn"},
            "training": {"epochs": 1},
            "evaluation": {"every": 1000, "stages": ["G"]},
            "communication": {"encoding": encoding},
        },
    )
    where = ("--runs", str(folder), "--run", "r")
    serve("simulate", str(experiment), *where, seconds=600)
    return float(read_records(folder / "r" / "metrics.jsonl")[-1]["accuracy_global"])
