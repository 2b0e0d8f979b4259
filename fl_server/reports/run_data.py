"""PURE: one run as a report sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from common.config import Experiment
from fl_server.run.metrics.summary import Summary
from fl_server.watch.facts import Fact, Finished
from fl_server.watch.facts.lines import MetricsLine


@dataclass(frozen=True, slots=True)
class RunData:
    """One run as it stands on disk.

    `clients` has for each stage (`global`, `l1`, `l2`) the main metric of every client in the
    last test. `central`: trained in one place, and its rounds are epochs.
    """

    name: str
    experiment: Experiment
    finished: bool
    lines: tuple[MetricsLine, ...]
    events: tuple[Fact, ...]
    summary: Summary
    computed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # by which arithmetic
    clients: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    central: bool = False

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.experiment.experiment.seed

    @property
    def digest(self) -> str:
        """The digest of the final model, if there is one."""
        ends = [fact.digest for fact in self.events if isinstance(fact, Finished)]
        return ends[-1] if ends else ""
