"""PURE: what a board still has to do in a round: jobs to start, results to send, and asking
for a download."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Set
from typing import TypeAlias

import msgspec

from common.values import replace
from common.wire.messages import CurrentRound, Info, Selected
from common.worker.snapshot_choice import base_snapshot
from fl_client.agent.state import (
    Action,
    CancelJob,
    Job,
    Kind,
    Policy,
    Publish,
    ResultKey,
    SendUpdate,
    StartJob,
    State,
    Work,
)

JobKey: TypeAlias = tuple[Kind, int, int]  # kind, client, round
RESEND_SECONDS = 3.0
RESEND_AT_MOST = 30.0
# Limit on updates that are sent and not yet safe: a broker drops messages if the coordinator is
# slower than all boards together.
UNCONFIRMED_BYTES = 32 * 1024**2
MISSING_SECONDS = 3.0


def report_data(
    policy: Policy, work: Work, current: CurrentRound | None, now: float
) -> tuple[Work, tuple[Action, ...]]:
    """Report how much data of its own this board has: once, and until a round is open."""
    again = current is None and now - work.data_sent >= RESEND_SECONDS
    if not work.data or not (again or work.data_sent == -math.inf):
        return work, ()
    reports = tuple(
        Publish(
            Info(
                run=work.run,
                round=0,
                client=client_id,
                board=policy.board,
                state="data",
                samples=data.train,
                data=data,
            )
        )
        for client_id, data in sorted(work.data.items())
    )
    return replace(work, data_sent=now), reports


def drop_old_rounds(work: Work, selected: Selected) -> tuple[Work, tuple[Action, ...]]:
    """Forget the results of other rounds, and cancel their jobs; also trainings of clients
    that are not selected any more."""
    clients = frozenset(selected.clients)

    def is_wanted(kind: str, client: int, round_number: int) -> bool:
        if kind != "train":
            return round_number == selected.round
        return client in clients and round_number == round_of(selected, client)

    stale = frozenset(job for job in work.jobs if not is_wanted(*result_key(job)))
    stale -= work.cancelled
    work = replace(
        work,
        metrics={c: m for c, m in work.metrics.items() if m.round == selected.round},
        results={c: r for c, r in work.results.items() if is_wanted("train", c, r.round)},
        sent={key: at for key, at in work.sent.items() if is_wanted(*key)},
        retries={key: r for key, r in work.retries.items() if is_wanted(*key)},
    )
    work = replace(work, cancelled=work.cancelled | stale)
    return work, tuple(CancelJob(job) for job in sorted(stale, key=lambda job: job.client))


def start_jobs(
    policy: Policy,
    work: Work,
    current: CurrentRound,
    ready: Iterable[JobKey],
    now: float,
) -> tuple[Work, tuple[Action, ...]]:
    """Start as many of these jobs as there are free slots, but none that failed just now."""
    started: list[Action] = []
    jobs = work.jobs
    for kind, client, round_number in ready:
        if len(jobs) >= policy.workers:
            break
        base = base_snapshot(
            work.snapshots.get(client, frozenset()),
            round_number,
            coupled=work.coupled,
            accepted=current.accepted.get(client),
        )
        job = Job(kind, client, round_number, base)
        retry = work.retries.get(result_key(job))
        if retry is not None and now < retry.at:
            continue
        jobs |= {job}
        started += [*_lost_state(policy, work, job, current), StartJob(job)]
        started.append(Publish(_begun(policy, work, job)))
    return replace(work, jobs=jobs), tuple(started)


def _lost_state(
    policy: Policy, work: Work, job: Job, current: CurrentRound
) -> tuple[Action, ...]:
    """Report that a client cannot go on from the snapshot that the server has used."""
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
) -> Iterator[JobKey]:
    """What this board still has to compute in this round: training first."""
    running = {result_key(job) for job in work.jobs}
    untrained = set(selected.clients).difference(current.safe)
    if current.step in ("keys", "shares"):  # of a secured round
        untrained = set()
    untested = set(selected.testers).difference(current.measured)
    for client in policy.clients if untrained else ():
        job: JobKey = ("train", client, round_of(selected, client))
        if client not in untrained or job in running:
            continue
        if job[2] not in work.snapshots.get(client, ()):
            yield job
    for client in policy.clients if untested else ():
        job = ("test", client, current.round)
        if client not in untested or job in running:
            continue
        if client not in work.metrics:
            yield job


def ask_for_weights(
    policy: Policy,
    work: Work,
    current: CurrentRound,
    waiting: Set[JobKey],
    now: float,
) -> tuple[Work, tuple[Action, ...]]:
    """Report that a download is missing if jobs wait for it and no part came lately.

    Of this round's, one report is enough; a client that waits for an older one is to train
    another.
    """
    if not waiting or now - work.part_at < MISSING_SECONDS:
        return work, ()
    newest = [client for _, client, at in waiting if at == current.round]
    wanted = [(client, at) for _, client, at in waiting if at != current.round]
    if newest:
        wanted.append((min(newest), current.round))
    infos = (
        Info(run=work.run, round=at, client=client, board=policy.board, state="missing")
        for client, at in sorted(wanted)
    )
    return replace(work, part_at=now), tuple(Publish(info) for info in infos)


def send(
    state: State, work: Work, current: CurrentRound, selected: Selected, now: float
) -> tuple[Work, tuple[Action, ...]]:
    """Send what the coordinator has not confirmed, repeatedly; not too much at once."""
    actions: list[Action] = []
    sent = dict(work.sent)
    open_bytes = sum(
        _size(work, client)
        for (kind, client, _), at in sent.items()
        if kind == "train" and client not in current.safe and not _is_due(state, at, now)
    )
    for client in selected.clients:
        round_number = round_of(selected, client)
        there = round_number in work.snapshots.get(client, ())
        if work.secure:  # its masks must be those that the others mean, too
            there = there and has_downloads(state, work, "train", client, round_number)
        result: ResultKey = ("train", client, round_number)
        size = _size(work, client)
        if open_bytes and open_bytes + size > UNCONFIRMED_BYTES:
            continue
        due = _is_due(state, sent.get(result, -math.inf), now)
        if there and client not in current.safe and due:
            open_bytes += size
            sent[result] = math.inf
            if client in work.results:  # first: from then on, an update is on its way
                actions.append(Publish(work.results[client]))
            actions.append(SendUpdate(client, round_number, again=result in work.sent))
    measured = frozenset(current.measured)
    for client, metrics in work.metrics.items():
        if client in measured:
            continue
        result = ("test", client, current.round)
        if _is_due(state, sent.get(result, -math.inf), now):
            sent[result] = now
            actions.append(Publish(metrics))
    return replace(work, sent=sent), tuple(actions)


def _is_due(state: State, sent: float, now: float) -> bool:
    """Whether what was sent then is lost, as far as one can tell.

    While the coordinator goes on confirming others, it waits its turn: hundreds of boards that
    send again what is on its way keep the coordinator from getting through.
    """
    latest = sent + RESEND_AT_MOST - RESEND_SECONDS
    return now - max(sent, min(state.confirmed_at, latest)) >= RESEND_SECONDS


def _size(work: Work, client: int) -> int:
    """The bytes of a client's update, if it was trained since this daemon started."""
    info = work.results.get(client)
    return (info.bytes or 0) if info is not None else 0


def has_downloads(
    state: State, work: Work, kind: Kind, client_id: int, round_number: int
) -> bool:
    """Whether every download that a job needs is on disk."""
    if (work.run, round_number) not in state.weights:
        return False
    if kind == "train" and work.secure:
        step = state.steps.get(client_id)
        return step in [(work.run, round_number, name) for name in ("updates", "opening")]
    needs_own = work.private and kind == "train"
    return not needs_own or state.private.get(client_id) == (work.run, round_number)


def round_of(selected: Selected, client: int) -> int:
    """The round whose model a client trains."""
    return selected.started.get(client, selected.round)


def result_key(job: Job) -> JobKey:
    """Which result a job produces, whatever snapshot it starts from."""
    return job.kind, job.client, job.round
