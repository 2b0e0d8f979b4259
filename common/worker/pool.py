"""Training processes, seen by their employer: orders in, reports out, deaths noticed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from common.worker.orders import (
    REPORTS,
    Abandon,
    JobDone,
    JobError,
    JobOrder,
    Order,
    Prepare,
    Prepared,
    Report,
)

# one thread each; and glibc keeps big blocks instead of mapping them anew every step
TUNING = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": "1000000000",
    "MALLOC_TRIM_THRESHOLD_": "1000000000",
}
RELEASE_SECONDS = 1.0  # for the last lines of a process that has ended


@dataclass(slots=True, eq=False)
class _Process:
    process: subprocess.Popen[bytes]
    prepared: bool = False
    announce: bool = False  # whether the employer waits for its `Prepared`
    job: int | None = None
    listener: threading.Thread | None = None


class Pool(Protocol):
    """Where jobs are done; what becomes of them is reported elsewhere, as `Report`s."""

    def prepare(self, order: Prepare) -> None:
        """Get ready for a run; `Prepared` follows."""

    def start(self, order: JobOrder) -> None:
        """Do a job; `JobDone` or `JobError` follows."""

    def abandon(self, job: int) -> None:
        """Give up a job; `JobError` without a problem follows, if it was not done before."""

    def release(self) -> None:
        """End everything and forget all jobs."""


class ProcessPool:
    """Up to `size` training processes; `post` gets every report, from other threads.

    The first process prepares a run alone (it may have to make shards), the others after it.
    """

    def __init__(self, size: int, post: Callable[[Report], None]) -> None:
        self._size = size
        self._post = post
        self._lock = threading.Lock()
        self._hands: list[_Process] = []
        self._order: Prepare | None = None

    def prepare(self, order: Prepare) -> None:
        """Get ready for a run; `Prepared` follows."""
        with self._lock:
            self._order = order
            for hand in self._hands:
                hand.prepared = False
            hand = self._hands[0] if self._hands else self._start()
            hand.prepared = hand.announce = True
            self._send(hand, order)

    def start(self, order: JobOrder) -> None:
        """Do a job on a free process; `JobDone` or `JobError` follows."""
        with self._lock:
            hand = next((h for h in self._hands if h.job is None), None)
            if hand is None:
                assert len(self._hands) < self._size, "more jobs than processes"
                hand = self._start()
            if not hand.prepared and self._order is not None:
                self._send(hand, self._order)
                hand.prepared = True
            hand.job = order.job
            self._send(hand, order)

    def abandon(self, job: int) -> None:
        """Give up a job at its next epoch; `JobError` without a problem follows."""
        with self._lock:
            for hand in self._hands:
                if hand.job == job:
                    self._send(hand, Abandon(job=job))

    def release(self) -> None:
        """End all processes and forget their jobs: idle boards need their memory."""
        with self._lock:
            hands, self._hands = self._hands, []
            self._order = None
        for hand in hands:
            hand.process.kill()
            hand.process.wait()
            if hand.listener is not None:
                hand.listener.join(RELEASE_SECONDS)

    def pids(self) -> tuple[int, ...]:
        """The processes, for tests and for curious people."""
        with self._lock:
            return tuple(hand.process.pid for hand in self._hands)

    def _start(self) -> _Process:
        process = subprocess.Popen(
            [sys.executable, "-m", "common.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **TUNING},
            start_new_session=True,  # Ctrl-C is for whoever employs it
        )
        hand = _Process(process)
        self._hands.append(hand)
        hand.listener = threading.Thread(target=self._listen, args=(hand,), daemon=True)
        hand.listener.start()
        return hand

    def _send(self, hand: _Process, order: Order) -> None:
        assert hand.process.stdin is not None
        try:
            hand.process.stdin.write(msgspec.json.encode(order) + b"\n")
            hand.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has died; `_listen` reports that

    def _listen(self, hand: _Process) -> None:
        assert hand.process.stdin is not None
        assert hand.process.stdout is not None
        with hand.process.stdout:
            for line in hand.process.stdout:
                report = REPORTS.decode(line)
                if self._note(hand, report):
                    self._post(report)
        code = hand.process.wait()
        with self._lock:
            with contextlib.suppress(BrokenPipeError):  # an order that it did not live to read
                hand.process.stdin.close()
            if hand not in self._hands:
                return
            self._hands.remove(hand)
            job, order = hand.job, self._order
        problem = f"the training process died ({_death(code)})"
        if job is not None:
            self._post(JobError(job=job, problem=problem))
        elif order is not None and hand.announce:
            self._post(Prepared(run=order.run, problem=problem))

    def _note(self, hand: _Process, report: Report) -> bool:
        """Whether the employer should hear of it."""
        with self._lock:
            if hand not in self._hands:
                return False
            if isinstance(report, Prepared):
                heard, hand.announce = hand.announce, False
                hand.prepared = not report.problem
                return heard
            if isinstance(report, JobDone | JobError):
                hand.job = None
            return True


def _death(code: int) -> str:
    if code >= 0:
        return f"exit code {code}; its last words are in the log"
    hints = {
        signal.SIGKILL: "killed, probably for want of memory",
        signal.SIGILL: "this torch build needs a newer CPU than this board has",
    }
    number = signal.Signals(-code)
    return f"{number.name}: {hints.get(number, 'stopped by a signal')}"
