"""PURE: a line of metrics.jsonl: how a round was trained and how its model was tested.

Keys that a line may lack are UNSET: round 0 has no training, a round that is not tested has no
accuracies, and who only watches the topics knows only some of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from common.wire.messages import Ids


class TrainingLine(msgspec.Struct, frozen=True):
    """The training of a round."""

    round: int
    train_loss: float | UnsetType | None = UNSET
    updates: int | UnsetType = UNSET
    clients: Ids | UnsetType = UNSET
    dropped: Ids | UnsetType = UNSET
    samples: int | UnsetType = UNSET
    values: dict[str, float] | UnsetType = UNSET
    seconds: float | UnsetType = UNSET
    train_seconds: float | UnsetType = UNSET
    aggregate_seconds: float | UnsetType = UNSET
    bytes_up: int | UnsetType = UNSET
    bytes_down: int | UnsetType = UNSET
    energy_joules: float | UnsetType | None = UNSET
    time: float | UnsetType = UNSET


class MetricsLine(TrainingLine, frozen=True):
    """The training of a round, and the tests of the model that it has made."""

    accuracy_global: float | None = None
    accuracy_l1: float | None = None
    accuracy_l2: float | None = None
    mean_l1: float | UnsetType | None = UNSET
    union_l1: float | UnsetType | None = UNSET
    rho_l1: int | UnsetType | None = UNSET
    mean_l2: float | UnsetType | None = UNSET
    union_l2: float | UnsetType | None = UNSET
    rho_l2: int | UnsetType | None = UNSET
    tested_clients: int | UnsetType = UNSET
    tested_samples: int | UnsetType = UNSET


def with_tests(line: TrainingLine, accuracies: Mapping[str, float | None]) -> MetricsLine:
    """The line of a round whose model has been tested."""
    return msgspec.convert({**fields_of(line), **accuracies}, MetricsLine)


def fields_of(line: TrainingLine) -> dict[str, Any]:
    """The keys that a line has, and their values."""
    found = msgspec.structs.asdict(line)
    return {name: value for name, value in found.items() if value is not UNSET}


def parse_lines(records: Sequence[Any]) -> tuple[MetricsLine, ...]:
    """The objects of metrics.jsonl; msgspec.ValidationError if one is none of a round."""
    return msgspec.convert(records, tuple[MetricsLine, ...])


def number_in(line: TrainingLine, name: str) -> float | None:
    """A number of a line by its name; None if the line does not have it."""
    value = getattr(line, name, None)
    return value if isinstance(value, int | float) else None
