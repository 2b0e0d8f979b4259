"""A job that takes as long as on a slower board: it is computed, and then waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeAlias

Wait: TypeAlias = Callable[[int, float], None]  # a job waits so many seconds


def just_wait(_job: int, seconds: float) -> None:
    """Wait; nobody gives the job up."""
    threading.Event().wait(seconds)


class Pace:
    """From its making, a job takes at least so many seconds; 0: as long as it takes."""

    def __init__(self, job: int, seconds: float, wait: Wait) -> None:
        self._job = job
        self._seconds = seconds
        self._wait = wait
        self._started = time.perf_counter()

    @property
    def elapsed(self) -> float:
        """Seconds since the job has begun."""
        return time.perf_counter() - self._started

    def reach(self, share: float) -> None:
        """Wait until this share of the job would have been done."""
        left = self._seconds * share - self.elapsed
        if left > 0:
            self._wait(self._job, left)
