"""Studies in one line each: how far they are, and how long the rest takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fl_server.reports.tables import Column, Table
from fl_server.studies.costs import Measure, seconds_of
from fl_server.studies.runs import FoundRun
from fl_server.studies.study import Study

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


@dataclass(frozen=True, slots=True)
class StudyLine:
    """A study: its runs, those that are finished, and the seconds that the others take."""

    name: str
    title: str
    runs: int
    finished: int
    first_seed_seconds: float
    seconds: float

    def text(self) -> str:
        """For below a table."""
        if self.finished == self.runs:
            return f"all {self.runs} runs are finished"
        left = f"about {about(self.seconds)} of training on this machine"
        return f"{self.runs - self.finished} of {self.runs} runs are missing: {left}"


def line_of(study: Study, found: Sequence[FoundRun], measure: Measure) -> StudyLine:
    """What is there of a study, and what is missing."""
    seconds = [(one.run.experiment.experiment.seed, seconds_of(one, measure)) for one in found]
    first = min((seed for seed, _ in seconds), default=0)
    return StudyLine(
        name=study.name,
        title=study.title,
        runs=len(found),
        finished=sum(one.finished for one in found),
        first_seed_seconds=sum(left for seed, left in seconds if seed == first),
        seconds=sum(left for _, left in seconds),
    )


def listing(lines: Sequence[StudyLine]) -> Table:
    """All studies as a table."""
    columns = (
        Column("study"),
        Column("what"),
        Column("runs", "count"),
        Column("finished", "count"),
        Column("first seed takes"),
        Column("all that is missing"),
    )
    rows = tuple(
        (
            line.name,
            line.title,
            line.runs,
            line.finished,
            about(line.first_seed_seconds),
            about(line.seconds),
        )
        for line in lines
    )
    note = (
        "Times are of one process with a core of its own: from the rounds that runs have done, "
        "and before that from a few steps of each model. Run one: fl-server reproduce STUDY"
    )
    return Table("studies", "Studies", columns, rows, note)


def about(seconds: float) -> str:
    """A rough time: "40 s", "12 min", "3.5 h", "2 days"."""
    if seconds <= 0:
        return "-"
    if seconds < 2 * MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * HOUR:
        return f"{seconds / MINUTE:.0f} min"
    return f"{seconds / HOUR:.1f} h" if seconds < 2 * DAY else f"{seconds / DAY:.0f} days"
