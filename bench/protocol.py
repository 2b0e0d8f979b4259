"""Rounds that are all protocol, against bare paho with the same bytes on the same broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.bare import BareRounds
from bench.figures import Effort, Figure, figure, median, rounded
from bench.testbed import PROTOCOL_ONLY, coordinate, round_times
from common.config import Experiment
from common.experiment.file import parse_experiment
from common.experiment.resolve import first_model
from common.wire.tensors import ModelMeta, encode_tensors
from fl_server.lab.lab import Lab, share_out

BOARDS = 2


def experiment_of(clients: int, rounds: int) -> Experiment:
    """A model of 1.2 MB that everybody returns as it is."""
    table: dict[str, Any] = {
        **PROTOCOL_ONLY,
        "experiment": {"rounds": rounds + 1, "grace": "forever"},
        "model": {"name": "dnn", "hidden": 380},
        "data": {"clients": clients, "partition": "iid"},
    }
    return parse_experiment(table)


def measure(folder: Path, effort: Effort) -> list[Figure]:
    """For 6 and for 30 clients."""
    return [f for clients in (6, 30) for f in _measure(folder / str(clients), clients, effort)]


def _measure(folder: Path, clients: int, effort: Effort) -> list[Figure]:
    experiment = experiment_of(clients, effort.pick(15, 5))
    size = len(encode_tensors(first_model(experiment), ModelMeta(run="bench", round=1)))
    ours: list[float] = []
    bare: dict[str, list[float]] = {"bare": [], "durable": []}
    with Lab(folder / "lab", share_out(range(clients), BOARDS)) as lab:
        for at in range(effort.pick(4, 2)):
            for kind, times in bare.items():
                place = folder / kind if kind == "durable" else None
                with BareRounds(
                    lab.address.port, boards=BOARDS, clients=clients, size=size, folder=place
                ) as rounds:
                    times += [rounds.time() for _ in range(16)][1:]
            ours += round_times(coordinate(folder / "runs", f"r{at}", experiment, lab.address))
    durable = median(ours) / median(bare["durable"])
    return [
        Figure(
            "protocol",
            f"protocol-only round: 1.2 MB, 2 boards, {clients} clients",
            against="bare paho, same bytes, same broker: nothing survives a crash",
            must="(no mark)",
            value=round(median(ours) / median(bare["bare"]), 3),
            reached=None,
            details={
                "seconds": rounded(ours),
                **{f"{kind} seconds": rounded(times) for kind, times in bare.items()},
            },
        ),
        figure(
            "protocol",
            f"the same round, {clients} clients",
            against="bare paho that also digests, stores and adds up",
            value=durable,
            limit=("at most", 1.2),
        ),
    ]
