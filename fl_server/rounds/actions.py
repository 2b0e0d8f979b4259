"""PURE: what the round machine wants done; see `machine.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from common.wire.messages import (
    ClientData,
    ClientMetrics,
    CurrentRound,
    Selected,
    Step,
    TrainEnd,
)
from fl_server.watch import facts


@dataclass(frozen=True, slots=True)
class Announce:
    """Publish train_detail."""


@dataclass(frozen=True, slots=True)
class SendWeights:
    """Publish the global model of this round."""

    round_number: int


@dataclass(frozen=True, slots=True)
class Settle:
    """Journal who is in a step of a secured round, before it is published."""

    round_number: int
    step: Step
    clients: tuple[int, ...]
    threshold: int


@dataclass(frozen=True, slots=True)
class SendSecrets:
    """Send these clients what they need for the open step of a secured round."""

    round_number: int
    clients: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish this message."""

    message: CurrentRound | Selected | TrainEnd


@dataclass(frozen=True, slots=True)
class Open:
    """Journal who is in this round, before it is published (again, with more, if it lacks
    updates: its counts stay)."""

    round_number: int
    selected: tuple[int, ...]
    testers: tuple[int, ...]
    started: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Close:
    """The round is over: aggregate these updates (if there was training), write the metrics."""

    round_number: int
    used: tuple[int, ...]
    dropped: tuple[int, ...]
    training: bool
    started: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CountMetrics:
    """A client's counts are new and belong to the open round: add them up."""

    metrics: ClientMetrics


@dataclass(frozen=True, slots=True)
class KeepData:
    """A board has reported how much data of its own a client has."""

    client: int
    data: ClientData


@dataclass(frozen=True, slots=True)
class Finish:
    """The run is over."""

    reason: str


Reported: TypeAlias = (
    facts.BoardConnected
    | facts.Back
    | facts.Lost
    | facts.Foreign
    | facts.Waiting
    | facts.Failed
    | facts.StateLost
    | facts.Rejected
    | facts.Called
    | facts.Dropped
    | facts.Uncounted
    | facts.Unopened
    | facts.RevealRefused
    | facts.Control
)


@dataclass(frozen=True, slots=True)
class Report:
    """Report this to the event log and the screen."""

    fact: Reported


Action: TypeAlias = (
    Announce
    | SendWeights
    | Settle
    | SendSecrets
    | Publish
    | Open
    | Close
    | CountMetrics
    | KeepData
    | Finish
    | Report
)
