"""What secure aggregation costs: rounds of 1.2 MB that are all protocol, secured against plain.

Both add exactly. A masked value has 8 bytes instead of 4. All clients of a round are on two
boards of this machine, which make the masks of every pair twice: with n clients n² streams.
Flower's SecAgg+ is the peer.
"""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.figures import Effort, Figure, figure, median, rounded
from bench.flower_secure import AGAINST, secure_rounds
from bench.testbed import PROTOCOL_ONLY, coordinate, round_times
from common.config import Experiment
from common.experiment.file import parse_experiment
from common.experiment.resolve import shapes_of
from common.privacy.secure import Me, masked
from fl_server.lab.lab import Lab, share_out
from fl_server.run.journal import read_records

BOARDS = 2
TIMES = {6: 4.0, 30: 8.0, 100: 25.0}  # at most so many times as long, by clients in a round


def measure(folder: Path, effort: Effort) -> list[Figure]:
    """For 6, 30 and 100 clients: seconds and bytes."""
    counts = TIMES if effort.full else {6: TIMES[6]}
    return [f for n, most in counts.items() for f in _measure(folder / str(n), n, most, effort)]


def experiment_of(clients: int, rounds: int, *, secure: bool) -> Experiment:
    """A model of 1.2 MB that everybody returns as it is."""
    table: dict[str, Any] = {
        **PROTOCOL_ONLY,
        "experiment": {"rounds": rounds + 1, "grace": "forever"},
        "model": {"name": "dnn", "hidden": 380},
        "data": {"clients": clients, "partition": "iid"},
        "aggregation": {"arithmetic": "exact"},
        "privacy": {"secure": secure},
    }
    return parse_experiment(table)


def _measure(folder: Path, clients: int, most: float, effort: Effort) -> list[Figure]:
    rounds = {6: 10, 30: 4, 100: 2}[clients] if effort.full else 3
    seconds: dict[str, list[float]] = {"plain": [], "secured": []}
    sent: dict[str, list[float]] = {"plain": [], "secured": []}
    with Lab(folder / "lab", share_out(range(clients), BOARDS)) as lab:
        for at in range(effort.pick(2 if clients < 100 else 1, 1)):
            for kind in seconds:
                experiment = experiment_of(clients, rounds, secure=kind == "secured")
                run = coordinate(folder / "runs", f"{kind}{at}", experiment, lab.address)
                seconds[kind] += round_times(run)
                sent[kind] += _bytes(run)
    alone = _mask_seconds(clients)
    return [
        figure(
            "secure",
            f"secured round: 1.2 MB, {clients} clients on {BOARDS} boards, times as long",
            against="the same round unsecured, exact sums",
            value=median(seconds["secured"]) / median(seconds["plain"]),
            limit=("at most", most),
            note=f"masks of one client take {alone:.2f} s of a core",
            details={
                **{f"{kind} seconds": rounded(times) for kind, times in seconds.items()},
                "seconds for the masks of one client": round(alone, 4),
            },
        ),
        figure(
            "secure",
            f"bytes of that round, {clients} clients",
            against="the same round unsecured",
            value=median(sent["secured"]) / median(sent["plain"]),
            limit=("at most", 2.1),
            details={kind: rounded(sizes) for kind, sizes in sent.items()},
        ),
        _against_flower(folder / "flower", clients, seconds["secured"], rounds),
    ]


def _against_flower(folder: Path, clients: int, ours: list[float], rounds: int) -> Figure:
    what = f"that secured round in fedbed, {clients} clients, times faster"
    try:
        flower = secure_rounds(folder, clients, rounds)
    except (RuntimeError, OSError) as error:
        why = f"not measured: {error}"
        return Figure("secure", what, AGAINST, "at least 1", None, None, why)
    return figure(
        "secure",
        what,
        against=AGAINST,
        value=median(flower) / median(ours),
        limit=("at least", 1.0),
        details={"seconds": rounded(ours), "Flower's seconds": rounded(flower)},
    )


def _bytes(run: Path) -> list[float]:
    """Up and down, of every round but the first."""
    lines = [line for line in read_records(run / "metrics.jsonl") if line.get("clients")]
    return [float(line["bytes_up"] + line["bytes_down"]) for line in lines[1:]]


def _mask_seconds(clients: int) -> float:
    """Seconds of a core to mask one update."""
    size = sum(int(np.prod(s)) for s in shapes_of(experiment_of(3, 1, secure=True)).values())
    everybody = [Me("bench 1", client, secrets.token_bytes(32)) for client in range(clients)]
    peers = {me.client: me.keys() for me in everybody}
    update = {"w": np.zeros(size, np.uint64)}
    began = time.process_time()
    masked(everybody[0], peers, update)
    return time.process_time() - began
