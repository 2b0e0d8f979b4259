"""A part of a run in a process of its own: an order on stdin, its rounds and its end on stdout.

Beside the threads of a cluster's engine everything would take longer, training several times.
Another line on stdin stops it after its round; when stdin ends, its owner is gone.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import IO, Final, TypeAlias

import msgspec

from common.errors import FedbedError
from fl_server.coordinator.local_clients import make_local_clients
from fl_server.coordinator.simulate import Simulation
from fl_server.run.store import RunStore
from fl_server.watch import facts

PROGRAM: Final = __name__ if __name__ != "__main__" else "fl_server.sweeps.slice_process"
STOP: Final = b"stop\n"


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Go on with the run in this folder, for so long."""

    folder: str
    shards: str
    seconds: float


class RoundDone(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A round has closed."""

    round: int


class SliceDone(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What became of it."""

    finished: bool
    problem: str = ""


SliceReport: TypeAlias = RoundDone | SliceDone
REPORTS: msgspec.json.Decoder[SliceReport] = msgspec.json.Decoder(SliceReport)


def work() -> None:
    """Carry out one order. Stray prints of libraries go to stderr, not among the reports."""
    reports = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    orders = os.fdopen(0, "rb")
    wanted = msgspec.json.decode(orders.readline(), type=Order)
    stopped = threading.Event()
    threading.Thread(target=_listen, args=(orders, stopped), daemon=True).start()
    _report(reports, _go_on(wanted, stopped, reports))


def _listen(orders: IO[bytes], stopped: threading.Event) -> None:
    for _ in orders:
        stopped.set()
    os._exit(0)  # the owner is gone


def _report(reports: IO[bytes], report: SliceReport) -> None:
    reports.write(msgspec.json.encode(report) + b"\n")
    reports.flush()


def _go_on(wanted: Order, stopped: threading.Event, reports: IO[bytes]) -> SliceDone:
    end = time.monotonic() + wanted.seconds

    def observe(fact: facts.Fact) -> None:
        if isinstance(fact, facts.RoundClosed):
            _report(reports, RoundDone(round=fact.round))

    try:
        finished = Simulation(
            RunStore(Path(wanted.folder)),
            clients=make_local_clients(1),
            shards=Path(wanted.shards),
            observe=observe,
        ).run(pause=lambda: time.monotonic() > end or stopped.is_set())
    except FedbedError as error:
        return SliceDone(finished=False, problem=str(error))
    except Exception as error:  # noqa: BLE001 - a user's algorithm may raise anything
        return SliceDone(finished=False, problem=f"{type(error).__name__}: {error}")
    return SliceDone(finished=finished)


if __name__ == "__main__":
    work()
