"""PURE: what a board still has to do in a round: jobs to start, things to send or ask for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Set
from dataclasses import replace

import msgspec

from common.wire.messages import CurrentRound, Info, Selected
from common.worker.snapshot_choice import base_snapshot
from fl_client.agent.state import (
    Action,
    Cancel,
    Job,
    Kind,
    Place,
    Policy,
    Publish,
    SendUpdate,
    Start,
    State,
    Work,
)

RESEND_SECONDS = 3.0
# Of updates that are sent and not yet safe: a broker drops what it cannot keep for a
# coordinator that is slower than all boards together.
UNCONFIRMED_BYTES = 32 * 1024**2
MISSING_SECONDS = 3.0


def drop_old_rounds(work: Work, number: int) -> tuple[Work, tuple[Action, ...]]:
    """Results of other rounds are of no use any more; jobs of other rounds neither."""
    stale = frozenset(job for job in work.jobs if job.round != number) - work.cancelled
    work = replace(
        work,
        metrics={c: m for c, m in work.metrics.items() if m.round == number},
        results={c: r for c, r in work.results.items() if r.round == number},
        sent={place: at for place, at in work.sent.items() if place[2] == number},
        retries={place: r for place, r in work.retries.items() if place[2] == number},
    )
    work = replace(work, cancelled=work.cancelled | stale)
    return work, tuple(Cancel(job) for job in sorted(stale, key=lambda job: job.client))


def start_jobs(
    policy: Policy,
    work: Work,
    current: CurrentRound,
    ready: Iterable[tuple[Kind, int]],
    now: float,
) -> tuple[Work, tuple[Action, ...]]:
    """As many of these jobs as there are free slots, but for those that failed just now."""
    started: list[Action] = []
    jobs = work.jobs
    for kind, client in ready:
        if len(jobs) >= policy.workers:
            break
        base = base_snapshot(
            work.steps.get(client, frozenset()),
            current.round,
            coupled=work.coupled,
            accepted=current.accepted.get(client),
        )
        job = Job(kind, client, current.round, base)
        retry = work.retries.get(place_of(job))
        if retry is not None and now < retry.at:
            continue
        jobs |= {job}
        started += [*_lost_state(policy, work, job, current), Start(job)]
        started.append(Publish(_begun(policy, work, job)))
    return replace(work, jobs=jobs), tuple(started)


def _lost_state(
    policy: Policy, work: Work, job: Job, current: CurrentRound
) -> tuple[Action, ...]:
    """Say so when a client cannot go on from the step that the server has used."""
    used = current.accepted.get(job.client)
    if not work.stateful or job.kind != "train" or used is None or (job.base or 0) >= used:
        return ()
    since = f"round {job.base}" if job.base is not None else "the beginning"
    problem = f"its state after round {used} is lost, so it goes on from {since}"
    info = msgspec.structs.replace(_begun(policy, work, job), state="reset", problem=problem)
    return (Publish(info),)


def _begun(policy: Policy, work: Work, job: Job) -> Info:
    return Info(
        run=work.run,
        round=job.round,
        client=job.client,
        board=policy.board,
        state="training" if job.kind == "train" else "testing",
    )


def wanted_jobs(
    policy: Policy, work: Work, current: CurrentRound, selected: Selected
) -> Iterator[tuple[Kind, int]]:
    """What is still to be computed here in this round: training first."""
    running = {(job.kind, job.client) for job in work.jobs if job.round == current.round}
    untrained = set(selected.clients).difference(current.safe)
    untested = set(selected.testers).difference(current.measured)
    for client in policy.clients if untrained else ():
        if client not in untrained or ("train", client) in running:
            continue
        if current.round not in work.steps.get(client, ()):
            yield "train", client
    for client in policy.clients if untested else ():
        if client not in untested or ("test", client) in running:
            continue
        if client not in work.metrics:
            yield "test", client


def ask_for_weights(
    policy: Policy,
    work: Work,
    current: CurrentRound,
    waiting: Set[tuple[Kind, int]],
    now: float,
) -> tuple[Work, tuple[Action, ...]]:
    """Say that downloads are missing if jobs wait for them and no part came lately."""
    if not waiting or now - work.part_at < MISSING_SECONDS:
        return work, ()
    info = Info(
        run=work.run,
        round=current.round,
        client=min(client for _, client in waiting),
        board=policy.board,
        state="missing",
    )
    return replace(work, part_at=now), (Publish(info),)


def send(
    policy: Policy, work: Work, current: CurrentRound, selected: Selected, now: float
) -> tuple[Work, tuple[Action, ...]]:
    """Send what the coordinator has not confirmed, again and again; not too much at once."""
    actions: list[Action] = []
    sent = dict(work.sent)
    open_bytes = sum(
        _size(work, client)
        for (kind, client, _), at in sent.items()
        if kind == "train" and client not in current.safe and now - at < RESEND_SECONDS
    )
    for client in sorted(set(selected.clients).intersection(policy.clients)):
        there = current.round in work.steps.get(client, ())
        place: Place = ("train", client, current.round)
        due = now - sent.get(place, -math.inf) >= RESEND_SECONDS
        size = _size(work, client)
        if open_bytes and open_bytes + size > UNCONFIRMED_BYTES:
            continue
        if there and client not in current.safe and due:
            open_bytes += size
            sent[place] = math.inf
            actions.append(SendUpdate(client, current.round, again=place in work.sent))
            if client in work.results:
                actions.append(Publish(work.results[client]))
    measured = frozenset(current.measured)
    for client, metrics in work.metrics.items():
        if client in measured:
            continue
        place = ("test", client, current.round)
        if now - sent.get(place, -math.inf) >= RESEND_SECONDS:
            sent[place] = now
            actions.append(Publish(metrics))
    return replace(work, sent=sent), tuple(actions)


def _size(work: Work, client: int) -> int:
    """The bytes of a client's update, if it was trained since this daemon started."""
    info = work.results.get(client)
    return (info.bytes or 0) if info is not None else 0


def has_downloads(state: State, work: Work, number: int, kind: Kind, client: int) -> bool:
    """Whether all that a job computes from is on disk."""
    if (work.run, number) not in state.weights:
        return False
    needs_own = work.private and kind == "train"
    return not needs_own or state.private.get(client) == (work.run, number)


def place_of(job: Job) -> Place:
    """Which result a job makes, whatever it starts from."""
    return job.kind, job.client, job.round
