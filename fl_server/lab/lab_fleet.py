"""The boards of a fleet file in a lab: their links shaped, their training slowed down.

What gets through when is computed by the same code as in virtual time
(`fl_server/fleet/links.py`), so both have the same outages and absences, from the moment when
the first board begins to work.
"""

from __future__ import annotations

import heapq
import logging
import math
import threading
import time
from collections.abc import Mapping

from common.config import Experiment
from common.experiment.effort import training_effort
from common.experiment.resolve import participants_of
from fl_server.fleet.file import boards_of
from fl_server.fleet.kinds import Fleet, FleetBoard
from fl_server.fleet.links import Link
from fl_server.lab.lab import LabBoard
from fl_server.lab.relay import Relay
from fl_server.run.fleet import speeds_of
from fl_server.watch import facts

TOO_SLOW = 1.1  # as long as it should take, and a tenth

log = logging.getLogger(__name__)


class ShapedLink:
    """The link of a board, for its relay; a perfect one until the run has begun."""

    def __init__(self, link: Link) -> None:
        self.began = math.inf
        self._link = link
        self._draws = 0
        self._delay = {True: 0.0, False: 0.0}
        self._last = {True: 0.0, False: 0.0}

    def sent(self, start: float, size: int, *, up: bool) -> float:
        """When the last of so many bytes has left, if the first can leave at `start`."""
        if start < self.began:
            return start
        return self.began + self._link.sent(start - self.began, size, up=up)

    def arrived(self, sent: float, *, up: bool) -> float:
        """When what has left then is there; what follows closely is as late."""
        if sent < self.began:
            return sent
        if sent > self._last[up]:
            self._draws += 1
            self._delay[up] = self._link.delay(self._draws)
        self._last[up] = sent + self._delay[up]
        return self._last[up]


class LabFleet:
    """A fleet in a lab: what its boards are started with, and their links over time."""

    def __init__(self, fleet: Fleet, experiment: Experiment) -> None:
        self._fleet = fleet
        self._experiment = experiment
        self._boards = {
            board.name: board for board in boards_of(fleet, participants_of(experiment))
        }
        self._speeds = speeds_of(fleet, experiment)
        self._links: dict[str, ShapedLink] = {}
        self._relays: dict[str, Relay] = {}
        self._missing = {
            name for name, board in self._boards.items() if not self._absence(board, 0.0)
        }
        self._some_are_away = len(self._missing) < len(self._boards)
        self._slow: list[facts.Trained] = []
        self._ended = threading.Event()
        self._absences: threading.Thread | None = None

    @property
    def boards(self) -> dict[str, LabBoard]:
        """What the lab has to start."""
        return {name: self._lab_board(board) for name, board in self._boards.items()}

    def _lab_board(self, board: FleetBoard) -> LabBoard:
        group = board.group
        options = ["--speed", repr(self._speeds[group.name])]
        if group.hardware.memory:
            options += ["--memory", str(max(200, group.hardware.memory // group.workers))]
        return LabBoard(board.clients, group.workers, tuple(options))

    def shape(self, name: str, relay: Relay) -> None:
        """Take charge of a board's relay, before its board starts."""
        self._relays[name] = relay
        shaped = self._links[name] = ShapedLink(Link(self._boards[name], self._fleet.seed))
        relay.shape = shaped
        if name not in self._missing:
            relay.cut()  # away when the run begins

    def _absence(self, board: FleetBoard, now: float) -> float:
        """How long a board is away from now on; 0 if it is there."""
        return Link(board, self._fleet.seed).absences.end(now) - now

    def observe(self, fact: facts.Fact) -> None:
        """The time of the run begins with the first job, when boards have prepared themselves;

        or, if some are away at first, when all others have registered.
        """
        match fact:
            case facts.BoardConnected(board=board):
                self._missing.discard(board or "")
                if not self._missing and self._some_are_away:
                    self._begin()
            case facts.Info():
                self._begin()
            case facts.Trained():
                self._check(fact)
            case _:
                pass

    def _begin(self) -> None:
        if self._absences is not None:
            return
        began = time.monotonic()
        for link in self._links.values():
            link.began = began
        self._absences = threading.Thread(target=self._cut_and_mend, args=(began,), daemon=True)
        self._absences.start()

    def _cut_and_mend(self, began: float) -> None:
        links = {name: Link(board, self._fleet.seed) for name, board in self._boards.items()}
        waiting = [_next_change(links, name, 0.0) for name in sorted(links)]
        heapq.heapify(waiting)
        while waiting and waiting[0][0] < math.inf:
            at, name, back = heapq.heappop(waiting)
            if self._ended.wait(began + at - time.monotonic()):
                return
            log.info("board %s is %s", name, "back" if back else "away")
            relay = self._relays[name]
            if back:
                relay.mend()
            else:
                relay.cut()
            heapq.heappush(waiting, _next_change(links, name, at))

    def _check(self, fact: facts.Trained) -> None:
        board = self._boards.get(fact.board)
        if board is not None and fact.seconds > TOO_SLOW * self._seconds(board, fact.samples):
            self._slow.append(fact)

    def _seconds(self, board: FleetBoard, samples: int) -> float:
        """How long a training should take, about: test sets are as large as data says."""
        share, speed = self._experiment.data.train_ratio, self._speeds[board.group.name]
        tested = round(samples * (1 - share) / share)
        return training_effort(self._experiment, samples, tested, speed) / speed

    def too_slow(self) -> str:
        """What this machine could not do, in a sentence; nothing if it could."""
        if not self._slow:
            return ""
        worst = max(self._slow, key=self._excess)
        wanted = self._seconds(self._boards[worst.board], worst.samples)
        return (
            f"this machine is too slow for the fleet: {len(self._slow)} of its trainings took "
            f"longer than they should, such as client {worst.client} on board {worst.board} "
            f"{worst.seconds:.2f} s instead of {wanted:.2f} s; lower the speeds, or have fewer "
            "boards"
        )

    def _excess(self, fact: facts.Trained) -> float:
        return fact.seconds / self._seconds(self._boards[fact.board], fact.samples)

    def close(self) -> None:
        """No more changes."""
        self._ended.set()
        if self._absences is not None:
            self._absences.join()


def _next_change(links: Mapping[str, Link], name: str, now: float) -> tuple[float, str, bool]:
    """When a board next leaves, or is back (True)."""
    absences = links[name].absences
    back = absences.end(now)
    return (back, name, True) if back > now else (absences.next_start(now), name, False)
