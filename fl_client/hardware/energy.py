"""PURE: what each training has cost in energy, from power measured now and then."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field


@dataclass(slots=True)
class EnergyMeter:
    """Adds up the board's power while jobs run; jobs side by side share it equally."""

    joules: dict[int, float] = field(default_factory=dict)
    _last: tuple[float, float] | None = None

    def sample(self, now: float, watts: float | None, jobs: Collection[int]) -> None:
        """The power at this moment, and the jobs that have run since the last one."""
        self.joules = {job: joules for job, joules in self.joules.items() if job in jobs}
        if watts is None or not jobs:
            self._last = None
            return
        spent = 0.0
        if self._last is not None:
            then, before = self._last
            spent = (now - then) * (before + watts) / 2
        self._last = (now, watts)
        for job in jobs:
            self.joules[job] = self.joules.get(job, 0.0) + spent / len(jobs)

    def take(self, job: int) -> float | None:
        """The energy of a job that is done; None if it was not measured."""
        joules = self.joules.pop(job, None)
        return None if joules is None else round(joules, 3)
