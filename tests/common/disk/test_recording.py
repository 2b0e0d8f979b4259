"""What a machine was given can be recorded and replayed, also after a crash."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import msgspec
import pytest

from common import VERSION
from common.disk.recording import Machine, Recorder, Start, Torn, read, replay
from common.errors import FedbedError, StoreError
from common.wire.messages import CurrentRound, Selected, TrainDetail


@dataclass(frozen=True, slots=True)
class Limits:
    most: int
    until: float = math.inf


@dataclass(frozen=True, slots=True)
class Idle:
    since: float = -math.inf


@dataclass(frozen=True, slots=True)
class Busy:
    jobs: Mapping[int, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Counter:
    phase: Idle | Busy = field(default_factory=Idle)
    total: int = 0


@dataclass(frozen=True, slots=True)
class Added:
    amount: int
    now: float


@dataclass(frozen=True, slots=True)
class Received:
    message: TrainDetail | CurrentRound | Selected
    now: float


Event: TypeAlias = Added | Received


def step(limits: Limits, state: Counter, event: Event) -> tuple[Counter, tuple[str, ...]]:
    if isinstance(event, Received):
        return state, (f"read {event.message.run}",)
    if state.total + event.amount > limits.most:
        raise OverflowError("too much")
    return Counter(state.phase, state.total + event.amount), ()


COUNTING = Machine[Limits, Counter, Event](
    Limits, Counter, (Added, Received), step, lambda state: (f"total {state.total}",)
)
DETAIL = TrainDetail(
    protocol=2, version="1", run="r", experiment=msgspec.Raw(b'{"seed": 1, "x": [1.5]}')
)
CHOSEN = Selected(run="r", round=3, clients=(1, 2), testers=())


def record(path: Path, *events: Event, policy: Limits, state: Counter) -> None:
    recorder = Recorder(path, policy, state)
    for event in events:
        recorder.write(event)
    recorder.close()


def content(path: Path) -> list[object]:
    return [item for _, item in read(path, COUNTING)]


def test_what_was_recorded_is_read_back_equal(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    policy, state = Limits(5), Counter(Busy({3: frozenset({1, 2})}), 2)
    events = (Added(1, 0.5), Received(CHOSEN, 1.5), Received(DETAIL, 2.5))
    record(path, *events, policy=policy, state=state)
    assert content(path) == [Start(VERSION, policy, state), *events]


def test_infinite_numbers_survive(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    record(path, policy=Limits(5, math.inf), state=Counter(Idle(-math.inf)))
    assert content(path) == [Start(VERSION, Limits(5, math.inf), Counter(Idle(-math.inf)))]


def test_a_replay_prints_every_event_with_its_actions_and_the_last_state(
    tmp_path: Path,
) -> None:
    path = tmp_path / "events.jsonl"
    record(path, Added(2, 0.5), Received(CHOSEN, 1.0), policy=Limits(5), state=Counter())
    lines = list(replay(path, COUNTING))
    assert lines[1:] == [
        "2: Added(amount=2, now=0.5)",
        f"3: {Received(CHOSEN, 1.0)}",
        "    read r",
        "total 2",
    ]


def test_a_replay_names_the_line_at_which_the_machine_fails(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    record(path, Added(2, 0.5), Added(9, 1.0), policy=Limits(5), state=Counter())
    with pytest.raises(FedbedError, match="line 3: the machine fails: OverflowError: too much"):
        list(replay(path, COUNTING))


@pytest.mark.parametrize("left", [1, 5, 20])
def test_a_torn_last_line_is_skipped_also_when_recording_goes_on(
    tmp_path: Path, left: int
) -> None:
    path = tmp_path / "events.jsonl"
    record(path, Added(2, 0.5), Added(1, 1.0), policy=Limits(5), state=Counter())
    whole = path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    path.write_bytes(whole.removesuffix(last) + last[:left])
    assert content(path)[1:] == [Added(2, 0.5), Torn()]
    record(path, Added(3, 2.0), policy=Limits(5), state=Counter())
    assert content(path)[2:] == [
        Torn(),
        Start(VERSION, Limits(5), Counter()),
        Added(3, 2.0),
    ]
    assert list(replay(path, COUNTING))[-1] == "total 3"


def test_a_line_in_no_known_form_is_an_error_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    record(path, Added(2, 0.5), Added(1, 1.0), policy=Limits(5), state=Counter())
    path.write_bytes(path.read_bytes().replace(b'{"Added":{"amount":2', b'{"Gone":{"amount":2'))
    with pytest.raises(StoreError, match="line 2: not an event"):
        content(path)


def test_a_missing_recording_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"gone\.jsonl"):
        content(tmp_path / "gone.jsonl")


def test_a_full_disk_ends_the_recording_and_not_the_program() -> None:
    recorder = Recorder(Path("/dev/full"), Limits(5), Counter())
    recorder.write(Added(1, 0.5))
    recorder.close()
