"""PURE: a line of metrics.jsonl: how a round was trained and how its model was tested.

Keys that a line may lack are UNSET: round 0 has no training, a round that is not tested has no
tests, and who only watches the topics knows only some of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from common.config.task import AUTO
from common.tasks.metrics import Value
from common.tasks.task import shown_metric
from common.wire.messages import Ids, MetricName

AnyLine = TypeVar("AnyLine", bound="MetricsLine")


class MainMetric(msgspec.Struct, frozen=True):
    """The metric that curves follow; `lower`: less is better; `share`: it is from 0 to 1."""

    name: MetricName = "accuracy"
    lower: bool = False
    share: bool = True

    def of(self, line: TrainingLine, stage: str) -> float | None:
        """Its value for a stage (`global`, `l1`, `l2`) in a line."""
        return number_in(line, f"{self.name}_{stage}")


ACCURACY = MainMetric()


def main_metric(name: str, lower: Sequence[str]) -> MainMetric:
    """The main metric of an experiment by its name; `lower` are users' own."""
    if name == AUTO:
        return ACCURACY
    found = shown_metric(name, lower)
    return MainMetric(found.name, found.lower, found.share)


class TrainingLine(msgspec.Struct, frozen=True):
    """The training of a round."""

    round: int
    train_loss: float | UnsetType | None = UNSET
    updates: int | UnsetType = UNSET
    clients: Ids | UnsetType = UNSET
    dropped: Ids | UnsetType = UNSET
    staleness: Ids | UnsetType = UNSET  # of each of `clients`, in buffered rounds
    samples: int | UnsetType = UNSET
    values: dict[str, float] | UnsetType = UNSET
    seconds: float | UnsetType = UNSET
    train_seconds: float | UnsetType = UNSET
    aggregate_seconds: float | UnsetType = UNSET
    bytes_up: int | UnsetType = UNSET
    bytes_down: int | UnsetType = UNSET
    energy_joules: float | UnsetType | None = UNSET
    idle_joules: float | UnsetType = UNSET
    epsilon: float | UnsetType = UNSET
    time: float | UnsetType = UNSET


class MetricsLine(TrainingLine, frozen=True):
    """The training of a round, and the tests of the model that it has made.

    In a file the `tests` stand beside the other keys: `accuracy_global`, `loss_l1`, ...
    """

    tests: dict[str, Value] = {}
    tested_clients: int | UnsetType = UNSET
    tested_samples: int | UnsetType = UNSET


def with_tests(line: TrainingLine, tests: Mapping[str, Value]) -> MetricsLine:
    """The line of a round whose model has been tested."""
    return parse_line({**fields_of(line), **tests})


def fields_of(line: TrainingLine) -> dict[str, Any]:
    """The keys that a line has in a file, and their values."""
    found = msgspec.structs.asdict(line)
    tests = found.pop("tests", {})
    known = {name: value for name, value in found.items() if value is not UNSET}
    return {**known, **tests}


def parse_line(record: Mapping[str, Any]) -> MetricsLine:
    """An object of metrics.jsonl; msgspec.ValidationError if it is none of a round."""
    return parse_as(MetricsLine, record)


def parse_as(kind: type[AnyLine], record: Mapping[str, Any]) -> AnyLine:
    """The same, as a kind of its own."""
    known = {name: record[name] for name in kind.__struct_fields__ if name in record}
    tests = {
        name: value
        for name, value in record.items()
        if name not in kind.__struct_fields__ and name != "event"
    }
    return msgspec.convert({**known, "tests": tests}, kind)


def parse_lines(records: Sequence[Any]) -> tuple[MetricsLine, ...]:
    """The objects of metrics.jsonl; msgspec.ValidationError if one is none of a round."""
    found = msgspec.convert(records, tuple[dict[str, Any], ...])
    return tuple(parse_line(record) for record in found)


def number_in(line: TrainingLine, name: str) -> float | None:
    """A number of a line by its name; None if the line does not have it."""
    value = getattr(line, name, None)
    if value is None and isinstance(line, MetricsLine):
        value = line.tests.get(name)
    return value if isinstance(value, int | float) else None
