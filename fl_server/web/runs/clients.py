"""What a run's folder has about its clients: metrics over rounds, sizes, classes, logs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import msgspec

from common.data.reported import read_data_file
from common.errors import FedbedError
from common.experiment.file import read_experiment
from common.experiment.tasks import task_of
from common.tasks.metrics import Number
from common.tasks.task import STAGES, Task
from common.texts import printable, shortened
from fl_server.data.distribution import distribution_of
from fl_server.reports.runs import main_of

MOST_BYTES = 32_000_000  # of clients.jsonl, from its end
LAST_BYTES = 4_000_000
LOG_BYTES = 20_000
LOG_LINES = 40
LINE_LETTERS = 300

Row: TypeAlias = dict[str, float | int]
_one_at_a_time = threading.Lock()


class _Line(msgspec.Struct):
    round: int
    clients: dict[str, msgspec.Raw]


_LINE = msgspec.json.Decoder(_Line)
_SUMS = msgspec.json.Decoder(dict[str, dict[str, Number]])


def last_tests(folder: Path) -> dict[int, Row]:
    """The main metric of each client in the last test, by stage, and how many samples."""
    task = task_of(read_experiment(folder / "experiment.toml"))
    lines = list(_lines(folder, LAST_BYTES))
    if not lines:
        return {}
    return {int(client): _row(raw, task) for client, raw in lines[-1].clients.items()}


def client_curve(folder: Path, client: int) -> list[Row]:
    """The main metric of one client over the tested rounds."""
    task, key = task_of(read_experiment(folder / "experiment.toml")), str(client)
    return [
        {"round": line.round, **_row(line.clients[key], task)}
        for line in _lines(folder, MOST_BYTES)
        if key in line.clients
    ]


def _row(raw: msgspec.Raw, task: Task) -> Row:
    sums = _SUMS.decode(raw)
    found: Row = {}
    for stage, name in STAGES.items():
        value = main_of(sums[stage], task) if sums.get(stage) else None
        if value is not None:
            found[f"main_{name}"] = value
    tested = next((one["samples"] for one in sums.values() if "samples" in one), None)
    return found if tested is None else {**found, "tested": tested}


def _lines(folder: Path, most: int) -> Iterator[_Line]:
    try:
        with (folder / "clients.jsonl").open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - most))
            if size > most:
                file.readline()
            data = file.read(most)
    except OSError:
        return
    for line in data[: data.rfind(b"\n") + 1].splitlines():
        try:
            yield _LINE.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # the first one may be the end of a longer one


def class_counts(folder: Path, client: int) -> list[int]:
    """How many samples of each class a client has; empty where that is not known."""
    try:
        reported = read_data_file(folder)
        if reported is not None:
            data = reported.clients.get(client)
            return list(data.classes or ()) if data is not None else []
        with _one_at_a_time:
            counts = _counted(folder / "experiment.toml")
    except FedbedError:
        return []
    return list(counts[client]) if client < len(counts) else []


@lru_cache(maxsize=8)
def _counted(experiment: Path) -> tuple[tuple[int, ...], ...]:
    """By the dataset, if it is on this machine."""
    found = distribution_of(read_experiment(experiment))
    return tuple(tuple(map(int, row)) for row in found.train + found.test)


def log_tail(folder: Path, board: str, known: Mapping[str, object]) -> list[str]:
    """The last lines of the log of a lab's board."""
    if board not in known or "/" in board:
        return []
    try:
        with (folder / "lab" / f"{board}.log").open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - LOG_BYTES))
            text = file.read(LOG_BYTES).decode(errors="replace")
    except OSError:
        return []
    lines = text.splitlines()[-LOG_LINES:]
    return [shortened(printable(line), LINE_LETTERS) for line in lines]
