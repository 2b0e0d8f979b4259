"""A simulation in virtual time: the same machine, and a fleet that takes as long as it would.

Nothing waits. The timeline of the fleet says when results arrive; the machine decides by those
times whom it waits for, and what it uses is computed, before it "arrives".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from common.config import Experiment
from common.data.shards import ShardSet
from common.errors import FedbedError
from common.experiment.effort import most_steps, testing_effort, training_effort
from common.experiment.resolve import participants_of
from common.wire.messages import ClientMetrics, Info
from common.wire.tensors import ModelMeta, encode_tensors
from common.worker.orders import EpochDone, JobDone, JobOrder, Prepared
from fl_server.coordinator.conductor import ForOwner, StartRecord
from fl_server.coordinator.local_clients import LocalClients
from fl_server.coordinator.simulate import Simulation
from fl_server.fleet.file import boards_of
from fl_server.fleet.forecast import (
    forecast,
    is_wanted,
    next_moment,
    opening_after,
    presence_of,
)
from fl_server.fleet.happenings import Arrived, Came, Effort, Job, Left, Spent
from fl_server.fleet.kinds import Fleet
from fl_server.fleet.timeline import Timeline
from fl_server.rounds import machine as rounds
from fl_server.rounds.state import (
    Aggregated,
    Close,
    Closing,
    Event,
    Received,
    Reconnected,
    State,
    Working,
)
from fl_server.run.fleet import speeds_of
from fl_server.run.moments import Moment, keep_moment, read_moment
from fl_server.run.store import RunStore
from fl_server.watch import facts
from fl_server.watch.facts.making import presence

NEVER = 30 * 86400.0  # seconds: a month


@dataclass(slots=True)
class VirtualClock:
    """Seconds since the run began."""

    now: float = 0.0

    def __call__(self) -> float:
        """What time it is."""
        return self.now


class VirtualSimulation(Simulation):
    """A run of a fleet in virtual time."""

    timed = True

    def __init__(
        self,
        store: RunStore,
        fleet: Fleet,
        *,
        clients: LocalClients,
        shards: Path,
        observe: facts.Observer,
        record: StartRecord | None = None,
        data: Path | None = None,
    ) -> None:
        self._now = VirtualClock()
        self._resumed: Moment | None = None
        super().__init__(
            store,
            clients=clients,
            shards=shards,
            observe=observe,
            record=record,
            data=data,
            clock=self._now,
            wall=self._now,
        )
        self._fleet = fleet
        self._boards = boards_of(fleet, self._conductor.policy.participants)
        self._names = {client: board.name for board in self._boards for client in board.clients}
        self._prepared = Prepared(run="")
        self._results: dict[tuple[str, int, int], ClientMetrics | JobDone] = {}
        self._timeline: Timeline
        self._speeds: dict[int, float] = {}

    def _first_state(self, incarnation: int) -> State:
        """As the last round was closed; what happened since then happens again."""
        done = self._aggregator.progress().done if incarnation > 1 else 0
        if not done:
            return rounds.start(incarnation=incarnation, now=0.0)
        self._resumed = read_moment(self._store.folder, done)
        self._now.now = self._resumed.now
        return msgspec.structs.replace(self._resumed.state, incarnation=incarnation)

    def _connect(self, prepared: Prepared) -> None:
        experiment = self._experiment
        speeds = speeds_of(self._fleet, experiment)
        sizes = _sizes(experiment, self._shards, prepared)
        self._speeds = {c: speeds[b.group.name] for b in self._boards for c in b.clients}
        effort = effort_of(experiment, sizes, self._update_size(), self._speeds)
        self._prepared = prepared
        self._timeline = Timeline(self._boards, speeds, effort, self._fleet.seed)
        if self._resumed is not None:
            self._go_on(self._resumed)
        while not isinstance(self._conductor.state.phase, Working):
            self._advance()
            if self._now.now > NEVER:
                raise FedbedError(
                    "the run never begins: for a month, not enough boards of the fleet were "
                    "there at once; lower selection.start_with, or change their presence"
                )

    def _go_on(self, moment: Moment) -> None:
        """From the moment when a round was closed."""
        self._timeline.restore(moment.timeline)
        conductor, before = self._conductor, self._conductor.state.phase
        for board in self._boards:
            known = conductor.state.boards.get(board.name)
            there = known is not None and known.lost_at is None
            conductor.report(presence(presence_of(board, connected=there), connected=there))
        assert isinstance(before, Closing), "a moment is kept when a round is closed"
        self._feed(Aggregated(before.round_number, self._now.now, self._aggregator.known))
        self._begin(before)

    def _update_size(self) -> int:
        """How many bytes an update has, about."""
        meta = ModelMeta(run=self._store.run, round=1)
        arrays, encoding = self._aggregator.checks.expected, self._experiment.communication
        return len(encode_tensors(arrays, meta, encoding.encoding))

    def _do_round(self, phase: Working) -> None:
        """Compute what the round will use, then let it happen."""
        conductor, size = (
            self._conductor,
            len(self._aggregator.downloads.blob(phase.round_number)),
        )
        jobs = forecast(conductor.policy, conductor.state, self._timeline, size, self._now.now)
        self._compute(jobs)
        while (
            isinstance(now := conductor.state.phase, Working)
            and now.round_number == phase.round_number
        ):
            self._advance()

    def _advance(self) -> None:
        conductor = self._conductor
        before = conductor.state.phase
        self._now.now, happening = next_moment(
            conductor.policy, conductor.state, self._timeline, self._now.now
        )
        match happening:
            case Came(board):
                self._register(presence_of(board, connected=True), self._prepared)
            case Left(board):
                gone = presence_of(board, connected=False)
                conductor.report(presence(gone, connected=False))
                self._feed(Received(gone, self._now.now))
            case Arrived(job):
                self._arrive(job)
            case None if self._now.now == math.inf:
                raise FedbedError(
                    f"round {conductor.state.done + 1} never ends: no board of the fleet comes "
                    "back; check its presence and outages, or set experiment.grace"
                )
            case None:
                self._feed(Reconnected(self._now.now))  # all have repeated their presence
        self._begin(before)

    def _begin(self, before: object) -> None:
        """If a round was opened, its download goes to all boards that are there."""
        conductor, phase = self._conductor, self._conductor.state.phase
        if not isinstance(phase, Working):
            return
        size = len(self._aggregator.downloads.blob(phase.round_number))
        opening = opening_after(conductor.policy, before, conductor.state, size)
        if opening is not None and opening.download:
            there = sum(b.lost_at is None for b in conductor.state.boards.values())
            self._write_downloads(phase.round_number, phase.selected, boards=there)
        if opening is not None:
            self._timeline.open(opening, self._now.now)

    def _compute(self, jobs: Sequence[Job]) -> None:
        orders = [
            msgspec.structs.replace(
                self._order(job.kind, job.client, job.round_number, at),
                most_steps=most_steps(self._experiment, self._speeds[job.client]),
            )
            for at, job in enumerate(jobs)
            if (job.kind, job.client, job.round_number) not in self._results
        ]
        for order, report in self._clients.do(orders):
            if isinstance(report, EpochDone):
                continue
            result = report if report.metrics is None else report.metrics
            self._results[order.kind, order.client, order.round] = result

    def _arrive(self, job: Job) -> None:
        conductor = self._conductor
        if not is_wanted(conductor.policy, conductor.state, job):
            return
        self._compute([job])
        result = self._results.pop((job.kind, job.client, job.round_number))
        if isinstance(result, ClientMetrics):
            self._feed(Received(result, self._now.now))
            return
        order = JobOrder(
            job=0,
            kind=job.kind,
            client=job.client,
            round=job.round_number,
            base=None,
            download="",
        )
        result = msgspec.structs.replace(result, seconds=job.end - job.start)
        arrived, self._now.now = self._now.now, job.end  # when it was trained
        self._note_trained(order, result)
        self._now.now = arrived
        self._take(order, result)

    def _feed(self, event: Event) -> None:
        """There is nobody to publish to; a round that closes has cost time and energy."""
        actions: list[ForOwner] = list(self._conductor.feed(event))
        while actions:
            action = actions.pop(0)
            if isinstance(action, Close):
                seconds = self._conductor.round_seconds
                self._settle(seconds)
                if action.training:
                    moment = Moment(self._now.now, self._conductor.state, self._timeline.save())
                    keep_moment(self._store.folder, action.round_number, moment)
                closed = self._aggregator.close_round(action, seconds)
                actions += self._conductor.finish_round(closed)

    def _settle(self, seconds: float) -> None:
        """Put what the boards have spent since the last round into this one's tally."""
        spent, self._timeline.spent = self._timeline.spent, Spent()
        tally, idle = self._aggregator.tally, 0.0
        for board in self._boards:
            tally.spend(board.index, spent.joules.get(board.index, 0.0))
            waiting = max(0.0, seconds - spent.busy.get(board.index, 0.0))
            idle += waiting * board.group.hardware.idle
        tally.idle_joules = round(idle, 3)

    def _info(self, order: JobOrder, state: Literal["training", "trained"]) -> Info:
        info = super()._info(order, state)
        return msgspec.structs.replace(info, board=self._names[order.client])


def _sizes(
    experiment: Experiment, shards: Path, prepared: Prepared
) -> dict[int, tuple[int, int]]:
    """Training and test samples of every client."""
    if prepared.data:
        return {client: (data.train, data.test) for client, data in prepared.data.items()}
    clients = participants_of(experiment)
    there = ShardSet(shards, experiment).ensure(clients)
    loaded = ((client, there.load(client)) for client in clients)
    return {client: (len(shard.train), len(shard.test)) for client, shard in loaded}


def effort_of(
    experiment: Experiment,
    sizes: dict[int, tuple[int, int]],
    update: int,
    speeds: Mapping[int, float],
) -> Effort:
    """What trainings and tests take at these speeds, and the size of an update."""
    return Effort(
        {
            client: training_effort(experiment, train, test, speeds[client])
            for client, (train, test) in sizes.items()
        },
        {client: testing_effort(experiment, test) for client, (_, test) in sizes.items()},
        update,
    )
