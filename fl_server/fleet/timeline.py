"""PURE: what a fleet does when, in virtual time: downloads, trainings, tests, uploads.

Who trains and when a round closes is decided by the round machine; this only says when what it
waits for happens. A board receives and sends one thing after another, and computes as many jobs
side by side as it has workers, trainings first. A job of a round that is over is given up when
the next round reaches its board, unless its client goes on with it (`started`).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fl_server.fleet.happenings import (
    KINDS,
    Arrived,
    Came,
    Computed,
    Effort,
    Happening,
    Job,
    Kind,
    Left,
    Opening,
    Pending,
    Saved,
    Spent,
)
from fl_server.fleet.kinds import FleetBoard, Group
from fl_server.fleet.links import Link

MESSAGE = 400  # bytes of a client's counts, about


class Timeline:
    """All boards, and everything that is on its way."""

    def __init__(
        self,
        boards: Sequence[FleetBoard],
        speeds: Mapping[str, float],
        effort: Effort,
        seed: int,
    ) -> None:
        self.boards = boards
        self.effort = effort
        self._speeds = [speeds[board.group.name] for board in boards]
        self._links = [Link(board, seed) for board in boards]
        self._owner = {client: board for board in boards for client in board.clients}
        self._queue: list[tuple[float, int, Happening | Computed]] = []
        self._jobs: dict[tuple[Kind, int], Job] = {}
        self._up_free = [0.0] * len(boards)
        self._down_free = [0.0] * len(boards)
        self._count = 0
        self.spent = Spent()
        for board, link in zip(boards, self._links, strict=True):
            self._push(link.absences.end(0.0), Came(board))

    def copy(self) -> Timeline:
        """One that can go on by itself; what is drawn is the same for both."""
        other = object.__new__(Timeline)
        other.boards, other.effort = self.boards, self.effort
        other._speeds, other._links, other._owner = self._speeds, self._links, self._owner
        other._queue, other._jobs = self._queue.copy(), self._jobs.copy()
        other._up_free, other._down_free = self._up_free.copy(), self._down_free.copy()
        other._count, other.spent = self._count, Spent()
        return other

    def save(self) -> Saved:
        """What is needed to go on from here in another process."""
        return Saved(
            tuple(_pending(*item) for item in self._queue),
            tuple(self._jobs.values()),
            tuple(self._up_free),
            tuple(self._down_free),
            self._count,
        )

    def restore(self, saved: Saved) -> None:
        """Go on from there."""
        self._jobs = {(job.kind, job.client): job for job in saved.jobs}
        self._queue = [(item.time, item.count, self._happening(item)) for item in saved.pending]
        self._up_free, self._down_free = [*saved.up_free], [*saved.down_free]
        self._count = saved.count

    def _happening(self, item: Pending) -> Happening | Computed:
        job = item.job
        if job is None:
            board = self.boards[item.board]
            return Came(board) if item.what == "came" else Left(board)
        known = self._jobs.get((job.kind, job.client))  # the very same, unless it is given up
        same = known if known == job else job
        return Arrived(same) if item.what == "arrived" else Computed(same)

    def next_time(self) -> float:
        """When the next thing happens; some of it concerns only boards."""
        return self._queue[0][0] if self._queue else math.inf

    def pop(self) -> tuple[float, Happening | None]:
        """The next thing that happens, and when; None if it concerns only its board."""
        now, _, happening = heapq.heappop(self._queue)
        match happening:
            case Came(board):
                away = self._links[board.index].absences.next_start(now)
                if away < math.inf:
                    self._push(away, Left(board))
            case Left(board):
                self._push(self._links[board.index].absences.end(now), Came(board))
            case Computed(job):
                if self._jobs.get((job.kind, job.client)) is job:
                    self._send(job, now)
                return now, None
            case Arrived(job):
                if self._jobs.get((job.kind, job.client)) is not job:
                    return now, None
                del self._jobs[job.kind, job.client]
        return now, happening

    def open(self, opening: Opening, now: float) -> None:
        """A round is published, or once more with more clients."""
        wanted: dict[int, list[tuple[Kind, int]]] = {}
        for kind in KINDS:
            for client in sorted(opening.trainers if kind == "train" else opening.testers):
                wanted.setdefault(self._owner[client].index, []).append((kind, client))
        for board in sorted({self._owner[client].index for _, client in self._jobs}):
            self._give_up(board, opening, now)
        for board, link in enumerate(self._links):
            seconds = opening.download * 8 / link.down
            self.spent.add(board, seconds, self._group(board).hardware.sending)
            if board in wanted:  # the others receive it as well, and do nothing with it
                arrived = self._receive(board, opening.download, now)
                self._plan(board, wanted[board], opening, arrived, now)
            elif opening.started and opening.download:  # but these may train it later
                self._receive(board, opening.download, now)

    def _give_up(self, board: int, opening: Opening, now: float) -> None:
        known = now + self._links[board].one_way
        for job in self._jobs_of(board):
            if not self._is_wanted(job, opening):
                del self._jobs[job.kind, job.client]
                if job.end > now:  # else it has been computed, and charged
                    self._charge(replace(job, end=min(job.end, known)))

    def _jobs_of(self, board: int) -> list[Job]:
        keys = [(kind, client) for kind in KINDS for client in self.boards[board].clients]
        return [self._jobs[key] for key in keys if key in self._jobs]

    @staticmethod
    def _is_wanted(job: Job, opening: Opening) -> bool:
        if job.kind == "test":
            return job.round_number == opening.round_number and job.client in opening.testers
        wanted = opening.started.get(job.client, opening.round_number)
        return job.round_number == wanted and job.client in opening.trainers

    def _receive(self, board: int, size: int, now: float) -> float:
        link = self._links[board]
        start = max(now, self._down_free[board]) if link.flows_from(now) == now else now
        end = self._down_free[board] = link.sent(start, size, up=False)
        return end + self._delay(link)

    def _plan(
        self,
        board: int,
        wanted: Sequence[tuple[Kind, int]],
        opening: Opening,
        arrived: float,
        now: float,
    ) -> None:
        running = [job.end for job in self._jobs_of(board) if job.end > now]
        workers = self._group(board).workers
        slots = sorted(running)[-workers:]
        slots += [now] * (workers - len(slots))
        for kind, client in wanted:
            if (kind, client) in self._jobs:  # of an earlier round, and still of use
                continue
            slots.sort()
            start = max(slots[0], arrived)
            job = self._job(kind, client, board, start, opening)
            slots[0] = job.end
            self._jobs[kind, client] = job
            self._push(job.end, Computed(job))

    def _job(self, kind: Kind, client: int, board: int, start: float, opening: Opening) -> Job:
        samples = (self.effort.train if kind == "train" else self.effort.test)[client]
        seconds, share = samples / self._speeds[board], 1.0
        if kind == "train" and start + seconds > opening.until:
            left = max(0.0, opening.until - start)
            share, seconds = left / seconds, left
        end = round(start + seconds, 6)
        return Job(kind, client, opening.round_number, board, start, end, share)

    def _send(self, job: Job, now: float) -> None:
        self._charge(job)
        link, size = self._links[job.board], self.effort.update
        if job.kind == "test":
            size = MESSAGE
        start = max(now, self._up_free[job.board])
        end = self._up_free[job.board] = link.sent(start, size, up=True)
        self.spent.add(job.board, size * 8 / link.up, self._group(job.board).hardware.sending)
        self._push(end + self._delay(link), Arrived(job))

    def _charge(self, job: Job) -> None:
        watts = self._group(job.board).hardware.training
        self.spent.add(job.board, job.end - job.start, watts)

    def _group(self, board: int) -> Group:
        return self.boards[board].group

    def _delay(self, link: Link) -> float:
        self._count += 1
        return link.delay(self._count)

    def _push(self, time: float, happening: Happening | Computed) -> None:
        self._count += 1
        heapq.heappush(self._queue, (round(time, 6), self._count, happening))


def _pending(time: float, count: int, happening: Happening | Computed) -> Pending:
    match happening:
        case Came(board):
            return Pending(time, count, "came", board.index)
        case Left(board):
            return Pending(time, count, "left", board.index)
        case Arrived(job):
            return Pending(time, count, "arrived", job.board, job)
        case Computed(job):
            return Pending(time, count, "computed", job.board, job)
