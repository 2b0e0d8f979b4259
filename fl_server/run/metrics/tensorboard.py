"""Event files for TensorBoard: the numbers of a run, written while it goes on.

The package `tensorboard` (an extra) writes them; without it, options that need it are refused.
"""

from __future__ import annotations

import math
from pathlib import Path

from common.disk.atomic import disk_errors
from common.errors import UsageError
from fl_server.run.journal import read_records
from fl_server.watch.facts import Evaluated, Fact, RoundClosed
from fl_server.watch.facts.lines import TrainingLine, number_in, parse_lines

FOLDER = "tensorboard"
_NAME = "events.out.tfevents.{time:010d}.fedbed"
_LARGEST = 3.4028234663852886e38  # in single precision
_TRAINING = ("train_loss", "updates", "seconds", "train_seconds", "bytes_up", "bytes_down")


def check_tensorboard() -> None:
    """UsageError, before anything is started, if the package is not there."""
    try:
        import tensorboard as _  # noqa: F401 - heavy, and only event files need it
    except ImportError as error:
        raise UsageError(
            "--tensorboard needs tensorboard: pip install 'fedbed[tensorboard]'"
        ) from error


class EventFile:
    """The event file of one run; made anew at every start from what the run has on disk."""

    def __init__(self, run: Path, now: float) -> None:
        check_tensorboard()
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event, self._summary = Event, Summary
        self._folder = run / FOLDER
        with disk_errors(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            for old in self._folder.glob("events.out.tfevents.*"):
                old.unlink()
            path = self._folder / _NAME.format(time=int(now))
            self._records = RecordWriter(path.open("wb", buffering=0))
            version = Event(wall_time=now, file_version="brain.Event:2")
            self._records.write(version.SerializeToString())
        for line in parse_lines(read_records(run / "metrics.jsonl")):
            self._add(line, (*line.tests, *_TRAINING))

    def observe(self, fact: Fact) -> None:
        """Take a fact of the run; tests and training are in different ones."""
        match fact:
            case Evaluated():
                self._add(fact, tuple(fact.tests))
            case RoundClosed():
                self._add(fact, _TRAINING)
            case _:
                pass

    def _add(self, line: TrainingLine, names: tuple[str, ...]) -> None:
        """Write those numbers of a line that it has."""
        found = {name: value for name in names if (value := number_in(line, name)) is not None}
        if not found:
            return
        values = [
            self._summary.Value(tag=tag_of(name), simple_value=_single(value))
            for name, value in found.items()
        ]
        event = self._event(
            wall_time=line.time or 0.0,
            step=line.round,
            summary=self._summary(value=values),
        )
        with disk_errors(self._folder):
            self._records.write(event.SerializeToString())

    def close(self) -> None:
        """Close the file."""
        self._records.close()


def _single(value: float) -> float:
    """A number that single precision has, which is what event files hold."""
    return value if math.isnan(value) else max(-_LARGEST, min(_LARGEST, float(value)))


def tag_of(name: str) -> str:
    """How TensorBoard groups a number: accuracy/global, rho/l1, round/seconds, ..."""
    return f"round/{name}" if name in _TRAINING else "/".join(name.rsplit("_", 1))
