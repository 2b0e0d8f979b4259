"""Drives the round machine: its actions become files and facts, or are left to its owner.

Publishing and aggregating are left to the owner, the coordinator or the simulation: `feed`
returns those actions. Closing a round is one path: `feed` returns `Close`, the owner lets the
aggregator close the round (beside its loop, if it has one) and hands the result to
`finish_round`. Everything here runs in the owner's deciding thread, so facts come from one.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import TypeAlias

from msgspec import UNSET

from common.config import Experiment
from common.errors import FedbedError
from common.experiment.resolve import participants_of
from common.wire.messages import Info
from fl_server.coordinator.own_rules import rule_of
from fl_server.coordinator.rate_limit import RateLimit
from fl_server.rounds import machine as rounds
from fl_server.rounds.selection import chances_of, goal
from fl_server.rounds.state import (
    Action,
    Aggregated,
    Announce,
    Close,
    CountMetrics,
    Event,
    Finish,
    KeepData,
    Open,
    Policy,
    Publish,
    Received,
    Report,
    Reported,
    SendSecrets,
    SendWeights,
    Settle,
    State,
    Working,
)
from fl_server.run.aggregator import Aggregator, ClosedRound
from fl_server.watch import facts
from fl_server.watch.facts.lines import MainMetric
from fl_server.watch.facts.making import as_object, is_kept, stamped

log = logging.getLogger(__name__)

ForOwner: TypeAlias = Announce | SendWeights | SendSecrets | Publish | Close
Record: TypeAlias = Callable[[Event], None]
StartRecord: TypeAlias = Callable[[Policy, State], Record]


class Conductor:
    """One run: its machine, its files and its facts."""

    def __init__(
        self,
        aggregator: Aggregator,
        policy: Policy,
        state: State,
        observe: facts.Observer,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        record: StartRecord | None = None,
    ) -> None:
        self._wall = wall
        self.aggregator = aggregator
        self.policy = policy
        self.state = state
        self._observe = observe
        self._clock = clock
        self._record = record and record(policy, state)
        self._opened = clock()
        self._round = 0
        self._rate_limit = RateLimit()

    @property
    def round_seconds(self) -> float:
        """How long the round has been open."""
        return self._clock() - self._opened

    def feed(self, event: Event) -> tuple[ForOwner, ...]:
        """Let the machine decide; returns what the owner has to do, in this order."""
        if self._record is not None:
            self._record(event)
        try:
            self.state, actions = rounds.step(self.policy, self.state, event)
        except FedbedError:
            raise  # a user's rule
        except Exception:
            if not isinstance(event, Received):
                raise
            log.exception("dropped a message that could not be handled")  # it ends no run
            return ()
        performed = [self._perform(action) for action in actions]
        return tuple(action for action in performed if action is not None)

    def finish_round(self, closed: ClosedRound) -> tuple[ForOwner, ...]:
        """The round is aggregated and on disk: report it, and go on."""
        if closed.tested is not None:
            self.report(closed.tested)
        if closed.trained is not None:
            self.report(closed.trained)
        known = self.aggregator.known
        return self.feed(Aggregated(closed.round_number, self._clock(), known))

    def report(self, fact: facts.Fact) -> None:
        """Write a fact to the event log, if it is of a kind that is kept, and show it."""
        fact = stamped(fact, self._wall())
        if is_kept(fact):
            self.aggregator.records.events.append(as_object(fact))
        self._observe(fact)

    def report_start(self) -> None:
        """Where the run stands before anything happens."""
        phase, main = self.state.phase, self.aggregator.task.main
        self.report(
            facts.Started(
                run=self.policy.run,
                folder=str(self.aggregator.store.folder),
                rounds=self.policy.rounds,
                done=self.state.done,
                safe=tuple(sorted(phase.safe)) if isinstance(phase, Working) else (),
                participants=len(self.policy.participants),
                incarnation=self.state.incarnation,
                main=MainMetric(main.name, main.lower, main.share),
            )
        )
        for text in self.aggregator.notes:
            self.report(facts.Start(text=text))
        if files := self.aggregator.changed_code:
            self.report(facts.Start(text=f"goes on with other code than before: {files}"))

    def note_trained(self, info: Info) -> None:
        """How long a training of this round took, and where; each counts once."""
        phase, tally = self.state.phase, self.aggregator.tally
        if info.state != "trained" or not isinstance(phase, Working):
            return
        if info.round != phase.start_of(info.client) or info.client not in phase.selected:
            return
        if info.client not in tally.trained:
            seconds = round(info.seconds or 0.0, 3)
            tally.trained[info.client] = seconds
            if text := self.aggregator.note_arithmetic(info):
                self.report(facts.Arithmetic(text, info.board, info.client))
            self.report(
                facts.Trained(
                    board=info.board,
                    client=info.client,
                    round=info.round,
                    seconds=seconds,
                    samples=info.samples,
                    joules=UNSET if info.joules is None else round(info.joules, 3),
                )
            )

    def _perform(self, action: Action) -> ForOwner | None:
        match action:
            case Open(round_number, selected, testers):
                self.aggregator.open_round(action)
                if not action.started or round_number != self._round:
                    self._opened = self._clock()
                self._round = round_number
                fact = facts.RoundOpened(round=round_number, selected=selected, testers=testers)
                self.report(fact)
            case CountMetrics(metrics):
                self.aggregator.tally.count(metrics)
                self.report(facts.Tested(client=metrics.client, round=metrics.round))
            case KeepData(client, data):
                self.aggregator.local.note(client, data)
            case Finish(reason):
                digest = self.aggregator.finish()
                self.report(facts.Finished(reason=reason, digest=digest))
            case Report(fact):
                self._report_in_moderation(fact)
            case Settle():
                assert self.aggregator.secure is not None, "only secured rounds have steps"
                self.aggregator.secure.settle(action)
            case Announce() | SendWeights() | SendSecrets() | Publish() | Close():
                return action
        return None

    def _report_in_moderation(self, fact: Reported) -> None:
        """What boards do must not decide how long our logs become."""
        of_nobody = not fact.board and fact.client is None
        if of_nobody or self._rate_limit.allows(f"{fact.board} {fact.client}", self._clock()):
            self.report(fact)


def policy_of(run: str, experiment: Experiment, *, masked: bool = False) -> Policy:
    """The experiment's settings of rounds; `masked`: boards mask their updates."""
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
        extra=experiment.selection.extra,
        rule=rule_of(experiment),
        buffer=experiment.aggregation.buffer,
        max_staleness=experiment.aggregation.max_staleness,
        chances=chances_of(participants, gamma=experiment.selection.gamma, seed=patience.seed),
        grace=math.inf if patience.grace == "forever" else patience.grace,
        deadline=patience.deadline or math.inf,
        min_updates=patience.min_updates,
        evaluate_every=experiment.evaluation.every,
        local=experiment.data.partition == "local",
        threshold=experiment.privacy.threshold if masked else 0.0,
    )


def resume_state(aggregator: Aggregator, policy: Policy, incarnation: int, now: float) -> State:
    """The machine's state for a run as it stands on disk; of too many updates the first."""
    on_disk = aggregator.progress()
    return rounds.resume(
        incarnation=incarnation,
        done=on_disk.done,
        accepted=on_disk.accepted,
        opened=on_disk.opened,
        safe=frozenset(on_disk.safe[: goal(policy)]),
        now=now,
        reported=on_disk.reported,
        known=aggregator.known,
        sealing=on_disk.sealing,
    )
