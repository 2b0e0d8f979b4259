"""The round machine alone in virtual time: 1,000 boards, 1,000 rounds, trainings stubbed."""

from __future__ import annotations

import resource
import time
from pathlib import Path

from bench.figures import Effort, Figure, figure
from fl_server.fleet.file import boards_of, parse_fleet, speed_of
from fl_server.fleet.forecast import play
from fl_server.fleet.happenings import Effort as Efforts
from fl_server.fleet.timeline import Timeline
from fl_server.rounds.policy import Policy

MODEL = 320_000  # bytes
GROUPS = (("raspberry-pi-4", "home-wifi"), ("raspberry-pi-5", "lte"), ("jetson-nano", "lte"))


def measure(_folder: Path, effort: Effort) -> list[Figure]:
    """Seconds and memory; every tenth board trains in a round."""
    boards, rounds = (1000, 1000) if effort.full else (100, 20)
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    virtual, updates = run(boards, rounds)
    seconds = time.perf_counter() - began
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return [
        figure(
            "virtual",
            f"{boards:,} boards x {rounds:,} rounds in virtual time, machine alone: seconds",
            against="minutes at most",
            value=seconds,
            limit=("at most", 300.0),
            details={
                "virtual seconds": round(virtual),
                "updates": updates,
                "memory grown by MB": round(grown, 1),
            },
        )
    ]


def run(boards: int, rounds: int) -> tuple[float, int]:
    """Virtual seconds that the run took, and how many updates were used."""
    each = boards // len(GROUPS) + 1
    fleet = parse_fleet(
        {
            "group": [
                {"name": board, "boards": each, "board": board, "link": link, "workers": 2}
                for board, link in GROUPS
            ]
        }
    )
    clients = range(each * len(GROUPS))
    there = boards_of(fleet, clients)
    speeds = {group.name: speed_of(fleet, group, 5e5) for group in fleet.group}
    effort = Efforts(dict.fromkeys(clients, 300.0), dict.fromkeys(clients, 4.0), MODEL)
    policy = Policy(
        run="bench.1",
        seed=1,
        rounds=rounds,
        participants=tuple(clients),
        start_with=len(clients),
        rate=0.1,
        grace=60.0,
        evaluate_every=100,
    )
    line = Timeline(there, speeds, effort, fleet.seed)
    closed = [(now, len(close.used)) for now, close in play(policy, line, MODEL)]
    return closed[-1][0], sum(used for _, used in closed)
