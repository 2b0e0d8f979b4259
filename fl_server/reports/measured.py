"""Boards and links as a run has shown them, for a fleet file."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec import UNSET

from common.config import Experiment
from common.experiment.effort import training_effort
from fl_server.reports.run_data import RunData
from fl_server.watch import facts
from fl_server.watch.facts.lines import number_in

LEAST_SECONDS = 1e-3  # clocks are not better
MOST_MBITS = 100_000.0


@dataclass(slots=True)
class MeasuredBoard:
    """What is known of a board; None where nothing is."""

    name: str
    clients: set[int] = field(default_factory=set)
    workers: int = 1
    speed: float = 0.0  # samples per second of one training process
    trainings: int = 0
    up: float | None = None  # Mbit/s
    down: float | None = None
    watts: float | None = None  # while it trains
    away: list[tuple[float, float]] = field(default_factory=list)


def measured_boards(run: RunData) -> list[MeasuredBoard]:
    """The boards of a run that have trained, in the order of their clients."""
    opened: dict[int, float] = {}
    trained: dict[str, list[facts.Trained]] = defaultdict(list)
    stored: dict[tuple[int, int], facts.Update] = {}
    for fact in run.events:
        match fact:
            case facts.RoundOpened():
                opened.setdefault(fact.round, fact.time)
            case facts.Trained():
                trained[fact.board].append(fact)
            case facts.Update():
                stored.setdefault((fact.round, fact.client), fact)
            case _:
                pass
    size = _model_bytes(run, len(trained))
    found = [
        _measured(name, all_of_it, run.experiment, opened, stored, size)
        for name, all_of_it in trained.items()
    ]
    begun = min(opened.values(), default=0.0)
    for board in found:
        board.away = _absences(run.events, board.name, begun)
    return sorted(found, key=lambda board: min(board.clients))


def _measured(
    name: str,
    trained: Sequence[facts.Trained],
    experiment: Experiment,
    opened: dict[int, float],
    stored: dict[tuple[int, int], facts.Update],
    size: float,
) -> MeasuredBoard:
    share = experiment.data.train_ratio
    speeds, seconds, joules = [], 0.0, []
    for fact in trained:
        test = round(fact.samples * (1 - share) / share)
        effort = training_effort(experiment, fact.samples, test)
        speeds.append(effort / max(LEAST_SECONDS, fact.seconds))
        if fact.joules is not UNSET:
            seconds += fact.seconds
            joules.append(fact.joules)
    workers = _side_by_side(trained)
    return MeasuredBoard(
        name,
        {fact.client for fact in trained},
        workers,
        statistics.median(speeds),
        len(trained),
        _up(trained, stored),
        _down(trained, opened, size),
        sum(joules) / seconds * workers if seconds else None,
    )


def _side_by_side(trained: Sequence[facts.Trained]) -> int:
    """How many trainings of a board went on at once, most of the time."""
    middles = [(fact.time - fact.seconds / 2, fact) for fact in trained]
    counts = [
        sum(other.time - other.seconds < at < other.time for other in trained if
            other.round == fact.round)
        for at, fact in middles
    ]  # fmt: skip
    return max(1, round(statistics.median(counts)))


def _up(
    trained: Sequence[facts.Trained], stored: dict[tuple[int, int], facts.Update]
) -> float | None:
    """Of updates that had the link to themselves: a board reports a training, and then sends.

    The time has the way and the coordinator's disk in it.
    """
    rates, free = [], 0.0
    for fact in sorted(trained, key=lambda one: one.time):
        update = stored.get((fact.round, fact.client))
        if update is None or update.bytes is UNSET:
            continue
        if fact.time >= free:
            rates.append(_mbits(update.bytes, update.time - fact.time))
        free = max(free, update.time)
    return statistics.median(rates) if rates else None


def _down(
    trained: Sequence[facts.Trained], opened: dict[int, float], size: float
) -> float | None:
    """From the opening of a round to the board's first training; not in the first round, in
    which boards prepare themselves."""
    waits: dict[int, float] = {}
    for fact in trained:
        if fact.round in opened and fact.round > 1:
            wait = fact.time - fact.seconds - opened[fact.round]
            waits[fact.round] = min(wait, waits.get(fact.round, wait))
    if not waits or not size:
        return None
    return _mbits(size, statistics.median(waits.values()))


def _mbits(size: float, seconds: float) -> float:
    return min(MOST_MBITS, size * 8 / 1e6 / max(LEAST_SECONDS, seconds))


def _model_bytes(run: RunData, boards: int) -> float:
    """Bytes of one download: every board gets each model."""
    rounds = [number_in(line, "bytes_down") for line in run.lines]
    known = [each for each in rounds if each]
    return statistics.median(known) / boards if known and boards else 0.0


def _absences(
    events: Iterable[facts.Fact], board: str, begun: float
) -> list[tuple[float, float]]:
    """When the coordinator knew that the board was lost, in seconds of the run."""
    found: list[tuple[float, float]] = []
    since: float | None = None
    for fact in events:
        if isinstance(fact, facts.Lost) and fact.board == board:
            since = fact.time - begun if since is None else since
        elif isinstance(fact, facts.Back) and fact.board == board and since is not None:
            if fact.time - begun > max(0.0, since):
                found.append((max(0.0, since), fact.time - begun))
            since = None
    return found


def fleet_text(run: RunData, boards: Sequence[MeasuredBoard]) -> str:
    """The fleet file, with what is measured and what is not in comments."""
    middle = statistics.median(board.speed for board in boards)
    lines = [
        f"# Measured in run {run.name}: model {run.experiment.model.name}, "
        f"{run.experiment.data.dataset}.",
        "# Speeds are of this model. Rates have the latency in them.",
        "seed = 1",
        f"machine = {middle:.1f}  # the median of these boards; for `relative`",
    ]
    names: set[str] = set()
    for board in boards:
        lines += ["", *_group_lines(board, _group_name(board.name, names))]
    return "\n".join(lines) + "\n"


def _group_name(board: str, taken: set[str]) -> str:
    plain = re.sub(r"[^a-z0-9]+", "-", board.lower()).strip("-")[:30] or "board"
    name, at = plain, 1
    while name in taken:
        at += 1
        name = f"{plain}-{at}"
    taken.add(name)
    return name


def _group_lines(board: MeasuredBoard, name: str) -> list[str]:
    up, down = (_rate(one, why) for one, why in ((board.up, "upload"), (board.down, "round")))
    watts = (
        "# training: no sensor has measured it; assumption: none"
        if board.watts is None
        else f"training = {board.watts:.2f}  # watts, from its sensor"
    )
    away = ", ".join(f"[{start:.1f}, {end:.1f}]" for start, end in board.away)
    return [
        "[[group]]",
        f'name = "{name}"',
        f"boards = 1  # board {board.name}, {len(board.clients)} clients",
        f"workers = {board.workers}  # trainings that were seen side by side",
        "[group.hardware]",
        f"samples_per_second = {board.speed:.1f}  # median of {board.trainings} trainings",
        f"cores = {max(4, board.workers)}  # assumption",
        watts,
        "# idle, sending: assumption: none",
        "[group.network]",
        f"up = {up}",
        f"down = {down}",
        "latency = 0.0  # it is in the rates",
        *(["[group.presence]", f"away = [{away}]  # when it was lost"] if away else []),
    ]


def _rate(mbits: float | None, of: str) -> str:
    if mbits is None:
        return "1000.0  # assumption: nothing was measured"
    source = "of updates" if of == "upload" else "from a round's opening to the first training"
    return f"{max(mbits, 0.001):.3f}  # Mbit/s, median {source}"
