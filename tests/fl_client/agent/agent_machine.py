"""The agent on its way, for the tests of `fl_client.agent`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from common.wire.messages import (
    PROTOCOL,
    ClientMetrics,
    CurrentRound,
    Info,
    Selected,
    TrainDetail,
    TrainEnd,
)
from fl_client.agent import machine as agent
from fl_client.agent.state import (
    Action,
    Event,
    Job,
    JobFailed,
    Kind,
    Opened,
    PartReceived,
    Policy,
    Publish,
    Received,
    StartJob,
    State,
    Tick,
    Trained,
    Work,
)
from fl_client.agent.state import Tested as HasTested  # pytest would collect a `Test...`
from tests.some_sums import counted

Some = TypeVar("Some", bound=Action)
FromCoordinator = TrainDetail | CurrentRound | Selected | TrainEnd


class Machine:
    """An agent on its way, with the actions of its last events."""

    def __init__(self, clients: tuple[int, ...] = (0, 1), workers: int = 1) -> None:
        self.policy = Policy("b", clients, workers)
        self.state = State()
        self.now = 100.0
        self.actions: tuple[Action, ...] = ()

    def take(self, *events: Event) -> tuple[Action, ...]:
        self.actions = ()
        for event in events:
            self.state, actions = agent.step(self.policy, self.state, event)
            self.actions += actions
        return self.actions

    def receive(self, *messages: FromCoordinator) -> tuple[Action, ...]:
        return self.take(*(Received(message, self.now) for message in messages))

    def wait(self, seconds: float) -> tuple[Action, ...]:
        self.now += seconds
        return self.take(Tick(self.now))

    def open(
        self,
        run: str = "run",
        snapshots: Mapping[int, Iterable[int]] | None = None,
        *,
        coupled: bool = False,
        private: bool = False,
    ) -> tuple[Action, ...]:
        there = {client: frozenset(rounds) for client, rounds in (snapshots or {}).items()}
        return self.take(Opened(run, there, coupled, self.now, private=private))

    def download(
        self, round_number: int = 1, run: str = "run", client: int | None = None
    ) -> tuple[Action, ...]:
        return self.take(PartReceived(run, round_number, True, self.now, client))

    def train(self, job: Job) -> tuple[Action, ...]:
        return self.take(Trained(job, trained(job), self.now))

    def test(self, job: Job) -> tuple[Action, ...]:
        return self.take(HasTested(job, metrics(job.client, job.round), self.now))

    def fail(self, job: Job, problem: str = "out of memory") -> tuple[Action, ...]:
        return self.take(JobFailed(job, problem, self.now))

    def of(self, kind: type[Some]) -> list[Some]:
        return [action for action in self.actions if isinstance(action, kind)]

    @property
    def started(self) -> list[tuple[Kind, int, int | None]]:
        return [(s.job.kind, s.job.client, s.job.base) for s in self.of(StartJob)]

    @property
    def work(self) -> Work:
        assert self.state.work is not None
        return self.state.work

    @property
    def states(self) -> list[str]:
        """States of the infos that were published."""
        messages = (action.message for action in self.of(Publish))
        return [message.state for message in messages if isinstance(message, Info)]


def detail(run: str = "run") -> TrainDetail:
    return TrainDetail(protocol=PROTOCOL, version="1", run=run, experiment=msgspec.Raw(b"{}"))


def current(round_number: int = 1, run: str = "run", **changes: object) -> CurrentRound:
    message = CurrentRound(
        run=run, round=round_number, incarnation=1, safe=(), measured=(), accepted={}
    )
    return msgspec.structs.replace(message, **changes)


def selected(
    round_number: int = 1,
    run: str = "run",
    clients: tuple[int, ...] = (0, 1),
    testers: tuple[int, ...] = (),
) -> Selected:
    return Selected(run=run, round=round_number, clients=clients, testers=testers)


def metrics(client: int, round_number: int = 1) -> ClientMetrics:
    counts = {"G": counted(1, 2)}
    return msgspec.convert(
        {"run": "run", "round": round_number, "client": client, "own": counts}, ClientMetrics
    )


def trained(job: Job) -> Info:
    return Info(run="run", round=job.round, client=job.client, board="b", state="trained")


def train(client: int, round_number: int = 1, base: int | None = None) -> Job:
    return Job("train", client, round_number, base)


def check(client: int, round_number: int = 1, base: int | None = None) -> Job:
    return Job("test", client, round_number, base)


def working(
    clients: tuple[int, ...] = (0, 1),
    testers: tuple[int, ...] = (),
    workers: int = 1,
    snapshots: Mapping[int, Iterable[int]] | None = None,
) -> Machine:
    """A board with clients 0 and 1 in round 1."""
    machine = Machine(workers=workers)
    machine.receive(detail())
    machine.open(snapshots=snapshots)
    machine.receive(current(), selected(clients=clients, testers=testers))
    machine.download()
    return machine
