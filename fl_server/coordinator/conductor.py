"""Drives the round machine: events in, and what its actions mean for the run's files.

What they mean for the outside (messages, training) is left to a `Boards`: the broker's or the
simulation's.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from common.config import Experiment
from common.experiment.resolve import participants_of
from common.wire.messages import CurrentRound, Info, Selected, TrainEnd
from fl_server.coordinator.rate_limit import RateLimit
from fl_server.rounds import machine as rounds
from fl_server.rounds.selection import chances_of
from fl_server.rounds.state import (
    Action,
    Aggregated,
    Announce,
    Close,
    CountMetrics,
    Event,
    Finish,
    Note,
    Open,
    Policy,
    Publish,
    SendWeights,
    State,
    Working,
)
from fl_server.run.aggregator import Aggregator

Fact: TypeAlias = dict[str, Any]  # one JSON object of events.jsonl
Observer: TypeAlias = Callable[[Fact], None]


class Boards(Protocol):
    """What reaches the boards."""

    def announce(self) -> None:
        """Say what is run."""

    def send_weights(self, round_number: int) -> None:
        """Say the global model of a round."""

    def publish(self, message: CurrentRound | Selected | TrainEnd) -> None:
        """Say this."""

    def aggregate(self, work: Callable[[], Event]) -> None:
        """Do this long work, then feed the event it returns."""


class Conductor:
    """One run on its way."""

    def __init__(
        self,
        aggregator: Aggregator,
        policy: Policy,
        state: State,
        boards: Boards,
        observe: Observer,
    ) -> None:
        self.aggregator = aggregator
        self.policy = policy
        self.state = state
        self._boards = boards
        self._observe = observe
        self._opened = time.monotonic()
        self._ration = RateLimit()

    def feed(self, event: Event) -> None:
        """Let the machine decide, and do what it says."""
        self.state, actions = rounds.step(self.policy, self.state, event)
        for action in actions:
            self._perform(action)

    def tell(self, kind: str, *, keep: bool = True, **fields: Any) -> None:  # noqa: ANN401
        """A fact for whoever watches, and (`keep`) for the event log."""
        fact: Fact = {"event": kind, **fields, "time": round(time.time(), 3)}
        if keep:
            self.aggregator.events.append(fact)
        self._observe(fact)

    def tell_start(self) -> None:
        """Where the run stands before anything happens."""
        where = self.aggregator.progress()
        self.tell(
            "started",
            run=self.policy.run,
            folder=str(self.aggregator.store.folder),
            rounds=self.policy.rounds,
            done=where.done,
            safe=sorted(where.safe),
            participants=len(self.policy.participants),
            incarnation=self.state.incarnation,
        )
        for text in self.aggregator.notes:
            self.tell("start", text=text)

    def note_trained(self, info: Info) -> None:
        """How long a training of this round took, and where; each counts once."""
        phase, tally = self.state.phase, self.aggregator.tally
        if info.state != "trained" or not isinstance(phase, Working):
            return
        if info.round != phase.round_number or info.client not in phase.selected:
            return
        if info.client not in tally.trained:
            seconds = round(info.seconds or 0.0, 3)
            tally.trained[info.client] = seconds
            self.tell(
                "trained",
                board=info.board,
                client=info.client,
                round=info.round,
                seconds=seconds,
                samples=info.samples,
            )

    def _perform(self, action: Action) -> None:
        match action:
            case Announce():
                self._boards.announce()
            case SendWeights(round_number):
                self._boards.send_weights(round_number)
            case Publish(message):
                self._boards.publish(message)
            case Open(round_number, selected, testers):
                self.aggregator.open_round(action)
                self._opened = time.monotonic()
                self.tell(
                    "round_opened", round=round_number, selected=selected, testers=testers
                )
            case CountMetrics(metrics):
                self.aggregator.count(metrics)
                self.tell("tested", keep=False, client=metrics.client, round=metrics.round)
            case Close():
                self._boards.aggregate(lambda: self._close(action))
            case Finish(reason):
                digest = self.aggregator.finish()
                self.tell("finished", reason=reason, digest=digest)
            case Note(kind, text, board, client):
                of_nobody = not board and client is None
                if of_nobody or self._ration.allows(f"{board} {client}", time.monotonic()):
                    self.tell(kind, text=text, board=board, client=client)

    def _close(self, close: Close) -> Event:
        seconds = time.monotonic() - self._opened
        line = self.aggregator.close_round(close, seconds)
        if line.get("tested_clients"):
            self.tell("evaluated", **line)
        if close.training:
            self.tell("round_closed", **self.aggregator.last_record())
        return Aggregated(close.round_number, time.monotonic())


def policy_of(run: str, experiment: Experiment) -> Policy:
    """What an experiment says about rounds."""
    patience = experiment.experiment
    participants = participants_of(experiment)
    wanted = experiment.selection.start_with
    return Policy(
        run=run,
        seed=patience.seed,
        rounds=patience.rounds,
        participants=participants,
        start_with=len(participants) if wanted == "all" else wanted,
        rate=experiment.selection.rate,
        chances=chances_of(participants, gamma=experiment.selection.gamma, seed=patience.seed),
        grace=math.inf if patience.grace == "forever" else patience.grace,
        deadline=patience.deadline or math.inf,
        min_updates=patience.min_updates,
        evaluate_every=experiment.evaluation.every,
    )


def resume_state(aggregator: Aggregator, incarnation: int) -> State:
    """The machine's state for a run as it stands on disk."""
    where = aggregator.progress()
    return rounds.resume(
        incarnation=incarnation,
        done=where.done,
        accepted=where.accepted,
        opened=where.opened,
        safe=where.safe,
        now=time.monotonic(),
    )
