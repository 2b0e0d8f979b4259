"""PURE: what a board does with a round, a repetition, a restart, an end.

The coordinator's messages come in any order and repeatedly; the board acts when they agree:

    train_detail of a run that has not ended          -> open that run (closing any other)
    current_round and selected agree, weights are
    complete, a slot is free                          -> train selected clients, then test
                                                         (some algorithms: once the download
                                                         of that client is complete, too)
    they agree, but no part of the weights came lately-> report that the weights are missing
    a snapshot of this round is on disk, not yet safe -> send its update until it is
    this round's counts are not yet confirmed         -> send them until they are
    its own data is read, and no round is open yet    -> report how much it is, now and then
    train_end of the open run                         -> close it
    a step of a secured round wants an answer         -> send it (`sealing.py`)

What `current_round` lists as safe or measured has arrived for good.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

from common.values import replace
from common.wire.messages import (
    CurrentRound,
    Info,
    Selected,
    TrainDetail,
    TrainEnd,
    newest,
)
from common.worker.snapshot_choice import snapshots_to_keep
from fl_client.agent import duties
from fl_client.agent.ours import with_ours
from fl_client.agent.sealing import send_secrets
from fl_client.agent.state import (
    Action,
    CloseRun,
    EpochFinished,
    Event,
    JobFailed,
    OfWork,
    Opened,
    OpenFailed,
    OpenRun,
    PartReceived,
    Policy,
    Prune,
    Publish,
    Received,
    Reconnected,
    Retry,
    SnapshotLost,
    State,
    Tested,
    Tick,
    Trained,
    UpdateStreamed,
    Work,
)

RETRY_SECONDS = 5.0
RETRY_AT_MOST = 60.0
MOST_ENDED = 64  # runs whose end is remembered
DOWNLOADS = 2  # complete models that are kept on disk

M = TypeVar("M", CurrentRound, Selected)


def step(policy: Policy, state: State, event: Event) -> tuple[State, tuple[Action, ...]]:
    """First note what the event means, then do everything that has become due.

    What has become due comes first: jobs start and updates leave before old files are deleted.
    """
    noted, actions = _note(policy, state, event)
    moved, due = _advance(policy, noted, event.now)
    return moved, due + actions


# what an event means


def _note(policy: Policy, state: State, event: Event) -> tuple[State, tuple[Action, ...]]:
    match event:
        case Received(message):
            return _note_message(policy, state, message, event.now), ()
        case Opened() | OpenFailed():
            return _note_opened(state, event), ()
        case PartReceived():
            return _note_part(state, event), ()
        case SnapshotLost(client_id, round_number):
            return _note_loss(state, client_id, round_number), ()
        case Reconnected() | Tick():
            if isinstance(event, Reconnected) and state.work is not None:
                unsent = replace(state.work, sent={}, data_sent=-math.inf)
                return replace(state, work=unsent), ()
            return state, ()
        case EpochFinished() | Trained() | Tested() | JobFailed() | UpdateStreamed():
            return _note_work(policy, state, event)


def _note_opened(state: State, event: Opened | OpenFailed) -> State:
    if state.opening != event.run:
        return state
    if isinstance(event, OpenFailed):
        return replace(state, opening="", reopen_at=event.now + RETRY_SECONDS)
    work = Work(
        event.run,
        event.coupled,
        event.stateful,
        event.private,
        dict(event.snapshots),
        part_at=event.now,
        data=dict(event.data),
        secure=event.secure,
    )
    return replace(state, opening="", work=work)


def _note_message(
    policy: Policy,
    state: State,
    message: TrainDetail | CurrentRound | Selected | TrainEnd,
    now: float,
) -> State:
    match message:
        case TrainDetail():
            return replace(state, detail=message)
        case CurrentRound(run=run):
            known = state.current.get(run)
            newer = newest(known, message)
            at = now if _confirms_more(known, newer) else state.confirmed_at
            others = _of_open_run(state, state.current)
            state = replace(state, current={**others, run: newer}, confirmed_at=at)
            return with_ours(policy, state, run)
        case Selected(run=run):
            if _is_outdated(state, message):
                return state
            kept = _of_open_run(state, state.selected)
            return with_ours(policy, replace(state, selected={**kept, run: message}), run)
        case TrainEnd():
            ended = state.ended
            if len(ended) >= MOST_ENDED:
                ended = frozenset({state.detail.run} & ended if state.detail else ())
            return replace(state, ended=ended | {message.run})


def _confirms_more(known: CurrentRound | None, newer: CurrentRound) -> bool:
    if known is None or known.round != newer.round:
        return False
    more = (len(newer.safe) - len(known.safe), len(newer.measured) - len(known.measured))
    return max(more) > 0


def _of_open_run(state: State, known: Mapping[str, M]) -> dict[str, M]:
    wanted = state.detail.run if state.detail is not None else None
    return {run: message for run, message in known.items() if run == wanted}


def _is_outdated(state: State, message: Selected) -> bool:
    """Whether it is of a round before the one that all other messages name."""
    known, current = state.selected.get(message.run), state.current.get(message.run)
    if known is None or current is None:
        return False
    return message.round < known.round == current.round


def _note_part(state: State, part: PartReceived) -> State:
    weights, private, key = state.weights, state.private, (part.run, part.round)
    steps = state.steps
    if part.complete and part.client is not None:
        private = {**private, part.client: key}
        steps = {**steps, part.client: (*key, part.step)}
    elif part.complete:
        weights = (*(other for other in weights if other != key), key)[-DOWNLOADS:]
    work = state.work
    if work is not None and work.run == part.run:
        work = replace(work, part_at=part.now)
    return replace(state, weights=weights, private=private, steps=steps, work=work)


def _note_loss(state: State, client_id: int, round_number: int) -> State:
    if state.work is None:
        return state
    work, gone = state.work, ("train", client_id, round_number)
    left = work.snapshots.get(client_id, frozenset()) - {round_number}
    snapshots = {**work.snapshots, client_id: left}
    sent = {key: at for key, at in work.sent.items() if key != gone}
    return replace(state, work=replace(work, snapshots=snapshots, sent=sent))


def _note_work(policy: Policy, state: State, event: OfWork) -> tuple[State, tuple[Action, ...]]:
    work = state.work
    if work is None:
        return state, ()
    if isinstance(event, UpdateStreamed):
        sent = {**work.sent, ("train", event.client, event.round): event.now}
        return replace(state, work=replace(work, sent=sent)), ()
    if event.job not in work.jobs:
        return state, ()
    if isinstance(event, EpochFinished):
        return state, (Publish(event.info),)
    work = replace(work, jobs=work.jobs - {event.job}, cancelled=work.cancelled - {event.job})
    result = duties.result_key(event.job)
    if isinstance(event, JobFailed):
        return _note_failure(policy, replace(state, work=work), event)
    work = replace(work, retries={k: v for k, v in work.retries.items() if k != result})
    if isinstance(event, Tested):
        metrics = {**work.metrics, event.job.client: event.metrics}
        return replace(state, work=replace(work, metrics=metrics)), ()
    return _note_trained(replace(state, work=work), work, event)


def _note_trained(state: State, work: Work, event: Trained) -> tuple[State, tuple[Action, ...]]:
    client_id, round_number = event.job.client, event.job.round
    kept = work.snapshots.get(client_id, frozenset()) | {round_number}
    current, selected = state.current.get(work.run), state.selected.get(work.run)
    wanted = selected is not None and duties.round_of(selected, client_id) == round_number
    if current is not None and wanted:  # else there may be newer ones
        kept = snapshots_to_keep(kept, round_number, current.accepted.get(client_id))
    work = replace(
        work,
        snapshots={**work.snapshots, client_id: kept},
        results={**work.results, client_id: event.info},
    )
    # the info is published together with the update
    return replace(state, work=work), (Prune(client_id, kept),)


def _note_failure(
    policy: Policy, state: State, event: JobFailed
) -> tuple[State, tuple[Action, ...]]:
    if state.work is None or not event.problem:
        return state, ()
    job, work = event.job, state.work
    result = duties.result_key(job)
    before = work.retries.get(result)
    gap = RETRY_SECONDS if before is None else min(2 * before.gap, RETRY_AT_MOST)
    work = replace(work, retries={**work.retries, result: Retry(event.now + gap, gap)})
    info = Info(
        run=work.run,
        round=job.round,
        client=job.client,
        board=policy.board,
        state="withdrawn" if event.final else "failed",
        problem=event.problem[:1000],
    )
    return replace(state, work=work), (Publish(info),)


# what has become due


def _advance(policy: Policy, state: State, now: float) -> tuple[State, tuple[Action, ...]]:
    state, switched = _switch_run(state, now)
    work = state.work
    if work is None:
        return state, switched
    work, told = duties.report_data(policy, work, state.current.get(work.run), now)
    state, switched = replace(state, work=work), (*switched, *told)
    if work.run not in state.ours:
        return state, switched
    current, selected = state.ours[work.run]
    if current.round != selected.round:
        return state, switched
    work, cancelled = duties.drop_old_rounds(work, selected)
    wanted = list(duties.wanted_jobs(policy, work, current, selected))
    ready = [job for job in wanted if duties.has_downloads(state, work, *job)]
    work, lacking, secrets = send_secrets(policy, state, work, current, selected, now)
    waiting = set(wanted).difference(ready) | lacking
    work, asked = duties.ask_for_weights(policy, work, current, waiting, now)
    work, started = duties.start_jobs(policy, work, current, ready, now)
    work, sent = duties.send(state, work, current, selected, now)
    actions = (*switched, *cancelled, *asked, *secrets, *started, *sent)
    return replace(state, work=work), actions


def _switch_run(state: State, now: float) -> tuple[State, tuple[Action, ...]]:
    detail = state.detail
    wanted = detail.run if detail is not None and detail.run not in state.ended else ""
    actions: tuple[Action, ...] = ()
    other_code = detail is not None and detail.code != state.code
    if state.work is not None and (state.work.run != wanted or other_code):
        actions = (CloseRun(state.work.run),)
        state = replace(state, work=None)
    if state.opening and (state.opening != wanted or other_code):
        actions = (CloseRun(state.opening),)
        state = replace(state, opening="")
    if detail is None or not wanted or state.work is not None or state.opening:
        return state, actions
    if now < state.reopen_at and not other_code:
        return state, actions
    return replace(state, opening=wanted, code=detail.code), (*actions, OpenRun(detail))
