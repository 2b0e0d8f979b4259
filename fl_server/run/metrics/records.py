"""What a run leaves to read: metrics, counts of every client, events, a summary."""

from __future__ import annotations

from pathlib import Path

import msgspec

from common.config import Experiment
from common.disk.atomic import write_atomic
from common.disk.flusher import Flusher
from common.experiment.tasks import task_of
from fl_server.run.journal import Journal, read_records
from fl_server.run.metrics.summary import summarize
from fl_server.run.metrics.tally import ClientSums
from fl_server.watch.facts.lines import MetricsLine, fields_of, parse_lines

SUMMARY = "summary.json"


class TestedRound(msgspec.Struct, frozen=True):
    """A line of metrics.jsonl, and the counts behind it, a line of clients.jsonl."""

    __test__ = False  # no test of pytest's

    line: MetricsLine
    by_client: ClientSums


class Records:
    """The files of one run that only grow; a line is never written twice."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._flusher = Flusher()
        self._metrics = Journal(folder / "metrics.jsonl")
        self._metrics_rounds = {line["round"] for line in read_records(self._metrics.path)}
        self._clients = Journal(folder / "clients.jsonl")
        self._clients_rounds = {line["round"] for line in read_records(self._clients.path)}
        self.events = Journal(folder / "events.jsonl")

    def append(self, tested: TestedRound) -> None:
        """Write what is not yet there: the line of metrics, and the counts behind it."""
        round_number = tested.line.round
        if round_number not in self._metrics_rounds:
            self._metrics.append(fields_of(tested.line))
            self._flusher.add(self._metrics.path)
            self._metrics_rounds.add(round_number)
        if tested.by_client and round_number not in self._clients_rounds:
            self._clients.append({"round": round_number, "clients": tested.by_client})
            self._flusher.add(self._clients.path)
            self._clients_rounds.add(round_number)

    def flush(self) -> None:
        """Wait until everything is on the disk."""
        self._flusher.wait()

    def lines(self) -> tuple[MetricsLine, ...]:
        """The lines of metrics.jsonl."""
        return parse_lines(read_records(self._metrics.path))

    def write_summary(self, experiment: Experiment) -> None:
        """What the whole run has brought."""
        stage = experiment.evaluation.personal_stage
        summary = summarize(self.lines(), task_of(experiment), stage)
        write_atomic(self._folder / SUMMARY, msgspec.json.encode(summary) + b"\n")

    def close(self) -> None:
        """Close the files."""
        self.flush()
        self._metrics.close()
        self._clients.close()
        self.events.close()
