"""PURE: a run of a study: where it belongs, what it is, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass

from common.config import Experiment
from fl_server.reports.run_data import RunData


@dataclass(frozen=True, slots=True)
class StudyRun:
    """One run of a study, and where in the table it belongs; its folder has its name.

    `code` is the folder of users' code.
    """

    row: str
    setting: str
    name: str
    experiment: Experiment
    code: str
    central: bool = False

    @property
    def rounds(self) -> int:
        """How many rounds it has; of a centralized training, epochs."""
        central = self.experiment.central.epochs
        return central if self.central else self.experiment.experiment.rounds


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run of a study and what is known of it; `data` is None if it was never started."""

    run: StudyRun
    data: RunData | None = None

    @property
    def finished(self) -> bool:
        """Whether it has ended."""
        return self.data is not None and self.data.finished

    @property
    def rounds(self) -> int:
        """How many rounds it has done."""
        return 0 if self.data is None else self.data.summary.rounds
