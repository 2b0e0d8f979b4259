"""PURE: how far a sweep is, and how long it will take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Pace:
    """A sweep on its way; `rounds` are those of each run that is to be done or was skipped."""

    rounds: Sequence[int]
    done: int = 0
    failed: int = 0
    seconds: float = 0.0
    measured: int = 0

    def after(self, *, seconds: Sequence[float], ok: bool) -> Pace:
        """A run has ended; `seconds` are those of the rounds done just now."""
        return replace(
            self,
            done=self.done + 1,
            failed=self.failed + (not ok),
            seconds=self.seconds + sum(seconds),
            measured=self.measured + len(seconds),
        )

    def share(self, rounds_here: int) -> float:
        """How much of all rounds is done, with so many rounds of the run that goes on."""
        total = sum(self.rounds)
        return min(1.0, (sum(self.rounds[: self.done]) + rounds_here) / total) if total else 1.0

    def seconds_left(self, here: Sequence[float], rounds_here: int) -> float | None:
        """An estimate from the rounds seen so far, those of this run (`here`) included."""
        measured = self.measured + len(here)
        if not measured:
            return None
        left = sum(self.rounds[self.done :]) - rounds_here
        return (self.seconds + sum(here)) / measured * max(0, left)
