"""Growth of the time of a round with registered clients, and with boards."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.figures import Effort, Figure, figure, median, rounded
from bench.light import light_boards
from bench.testbed import PROTOCOL_ONLY, coordinate, own_broker, round_times, run_lab
from common.experiment.file import parse_experiment

SELECTED = 6


def measure(folder: Path, effort: Effort) -> list[Figure]:
    """Registered clients on 4 boards, then light boards with a client each."""
    return [_registered(folder, effort), _boards(folder, effort)]


def _experiment(clients: int, rounds: int) -> dict[str, Any]:
    return {
        **PROTOCOL_ONLY,
        "experiment": {"rounds": rounds, "grace": "forever"},
        "model": {"name": "dnn", "hidden": 380},
        "data": {"clients": clients, "partition": "iid"},
        "selection": {"rate": SELECTED / clients},
    }


def _registered(folder: Path, effort: Effort) -> Figure:
    sizes = (10, 100, 1000) if effort.full else (10, 100)
    times: dict[int, list[float]] = {size: [] for size in sizes}
    for at in range(effort.pick(2, 1)):
        for size in sizes:
            table = _experiment(size, effort.pick(16, 6))
            run = run_lab(folder / f"{size}-{at}", table, boards=4, seconds=600)
            times[size] += round_times(run)
    return figure(
        "scale",
        f"round time at {sizes[-1]} registered clients, 6 selected, 4 boards",
        against="the same at 10 registered clients",
        value=median(times[sizes[-1]]) / median(times[sizes[0]]),
        limit=("at most", 1.2),
        details={f"{size} clients": rounded(values) for size, values in times.items()},
    )


def _boards(folder: Path, effort: Effort) -> Figure:
    sizes = (10, 50, 200) if effort.full else (6, 12)
    times: dict[int, list[float]] = {}
    for size in sizes:
        experiment = parse_experiment(_experiment(size, effort.pick(8, 4)))
        with own_broker(folder / f"broker-{size}") as address, ExitStack() as stack:
            stack.enter_context(light_boards(address.port, 0, size)).go()
            run = coordinate(folder / "runs", f"boards-{size}", experiment, address)
        times[size] = round_times(run)
    models = (sizes[-1] + SELECTED) / (sizes[0] + SELECTED)
    return figure(
        "scale",
        f"round time at {sizes[-1]} light boards, 6 selected, for each model that travels",
        against=f"the same at {sizes[0]} boards",
        value=median(times[sizes[-1]]) / median(times[sizes[0]]) / models,
        limit=("at most", 1.2),
        details={f"{size} boards": rounded(values) for size, values in times.items()},
    )
