"""The round machine on its way, for the tests of `fl_server.rounds`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from common.wire.messages import (
    PROTOCOL,
    ClientMetrics,
    Connected,
    CurrentRound,
    Info,
)
from fl_server.rounds import machine as rounds
from fl_server.rounds.boards import all_present
from fl_server.rounds.state import (
    Action,
    Aggregated,
    Event,
    Open,
    Phase,
    Policy,
    Publish,
    Received,
    Report,
    State,
    Stored,
    Tick,
    Working,
)
from fl_server.watch.facts.making import kind_of
from tests.some_sums import counted

POLICY = Policy(
    run="run", seed=1, rounds=2, participants=(0, 1, 2, 3), start_with=4, grace=60.0
)
A, B = (0, 1), (2, 3)  # the clients of boards a and b
Kind = TypeVar("Kind", bound=Action)


class Machine:
    """A machine on its way, with the actions of its last step."""

    def __init__(self, policy: Policy = POLICY, state: State | None = None) -> None:
        self.policy = policy
        self.now = 0.0
        self.state = state or rounds.start(incarnation=1, now=self.now)
        self.actions: tuple[Action, ...] = ()

    def take(self, *events: Event) -> tuple[Action, ...]:
        self.actions = ()
        for event in events:
            self.state, actions = rounds.step(self.policy, self.state, event)
            self.actions += actions
        return self.actions

    def hear(self, *messages: Connected | Info | ClientMetrics) -> tuple[Action, ...]:
        return self.take(*(Received(message, self.now) for message in messages))

    def store(self, *clients: int, round_number: int = 1) -> tuple[Action, ...]:
        return self.take(*(Stored(client, round_number, self.now) for client in clients))

    def measure(self, *clients: int, round_number: int = 1) -> tuple[Action, ...]:
        return self.hear(*(metrics(client, round_number) for client in clients))

    def wait(self, seconds: float) -> tuple[Action, ...]:
        """Time passes, and boards that are there repeat that they are."""
        self.now += seconds
        self.state = all_present(self.state, self.now)
        return self.take(Tick(self.now))

    def aggregate(self, round_number: int = 1) -> tuple[Action, ...]:
        return self.take(Aggregated(round_number, self.now))

    def do_round(self, round_number: int, clients: Iterable[int] = (0, 1, 2, 3)) -> None:
        self.store(*clients, round_number=round_number)
        self.measure(*clients, round_number=round_number)
        self.aggregate(round_number)

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [action for action in self.actions if isinstance(action, kind)]

    def has_lost(self, name: str) -> bool:
        return self.state.boards[name].lost_at is not None

    def is_in(self, phase: type[Phase]) -> bool:
        return isinstance(self.state.phase, phase)

    @property
    def working(self) -> Working:
        assert isinstance(self.state.phase, Working)
        return self.state.phase

    @property
    def said(self) -> CurrentRound:
        """The one current_round that was said."""
        found = [p.message for p in self.of(Publish) if isinstance(p.message, CurrentRound)]
        assert len(found) == 1
        return found[0]

    @property
    def notes(self) -> dict[str, str]:
        return {kind_of(report.fact): report.fact.text for report in self.of(Report)}


def board(name: str, clients: tuple[int, ...], **changes: object) -> Connected:
    claim = Connected(
        protocol=PROTOCOL,
        version="1",
        board=name,
        instance=f"instance of {name}",
        session=(1, 1),
        connected=True,
        settled=True,
        since=0.0,
        clients=clients,
        host="somewhere",
    )
    return msgspec.structs.replace(claim, **changes)


def gone(name: str, clients: tuple[int, ...], **changes: object) -> Connected:
    return board(name, clients, connected=False, **changes)


def metrics(client: int, round_number: int = 1, run: str = "run") -> ClientMetrics:
    counts = {"G": counted(client, 10)}
    return msgspec.convert(
        {"run": run, "round": round_number, "client": client, "own": counts}, ClientMetrics
    )


def info(client: int, state: str, name: str = "a", **changes: object) -> Info:
    fields = {"run": "run", "round": 1, "client": client, "board": name, "state": state}
    return msgspec.convert({**fields, **changes}, Info)


def begun(policy: Policy = POLICY) -> Machine:
    """Both boards are there and round 1 is open."""
    machine = Machine(policy)
    machine.hear(board("a", A), board("b", B))
    return machine


def patient(**changes: float) -> Policy:
    return dataclasses.replace(POLICY, **changes)  # type: ignore[arg-type] # ints are floats


def resumed(policy: Policy = POLICY, safe: Iterable[int] = (), done: int = 0) -> Machine:
    """A coordinator that was killed in a round."""
    opened = Open(done + 1, (0, 1, 2, 3), (0, 1, 2, 3))
    state = rounds.resume(
        incarnation=2,
        done=done,
        accepted={},
        opened=opened,
        safe=frozenset(safe),
        now=0.0,
    )
    return Machine(policy, state)
