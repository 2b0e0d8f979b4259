"""PURE: which results the open round will use, found by playing it to its end beforehand.

Only those have to be computed; who is dropped trains for nobody.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from common.wire.messages import PROTOCOL, ClientMetrics, Connected
from fl_server.fleet.due import next_due
from fl_server.fleet.happenings import Arrived, Came, Happening, Job, Left, Opening
from fl_server.fleet.kinds import FleetBoard
from fl_server.fleet.timeline import Timeline
from fl_server.rounds import machine as rounds
from fl_server.rounds.state import (
    Aggregated,
    Close,
    Event,
    Finished,
    Policy,
    Received,
    Reconnected,
    State,
    Stored,
    Working,
)


def presence_of(board: FleetBoard, *, connected: bool) -> Connected:
    """What a board's presence message would be."""
    return Connected(
        protocol=PROTOCOL,
        version="0",
        board=board.name,
        instance=board.name,
        session=(1, 1),
        connected=connected,
        settled=True,
        since=0.0,
        clients=board.clients,
        host=board.group.name,
        workers=board.group.workers,
    )


def next_moment(
    policy: Policy, state: State, timeline: Timeline, now: float
) -> tuple[float, Happening | None]:
    """The next time at which the machine may decide something, and what happens then."""
    while True:
        due, at = next_due(policy, state, now), timeline.next_time()
        if due < at or at == math.inf:
            return due, None
        at, happening = timeline.pop()
        if happening is not None:
            return at, happening


def forecast(
    policy: Policy, state: State, timeline: Timeline, download: int, now: float
) -> list[Job]:
    """The jobs whose results the open round uses, if none of them is rejected."""
    used: list[Job] = []
    _until_close(policy, state, timeline.copy(), download, now, used)
    return used


def play(policy: Policy, timeline: Timeline, download: int) -> Iterator[tuple[float, Close]]:
    """A whole run of the machine without trainings: when each round closes, and how."""
    state, now = rounds.start(incarnation=1, now=0.0), 0.0
    while not isinstance(state.phase, Finished):
        state, now, close = _until_close(policy, state, timeline, download, now, [])
        if close is None:
            return
        yield now, close
        before = state.phase
        state, _ = rounds.step(policy, state, Aggregated(close.round_number, now))
        if opening := opening_after(policy, before, state, download):
            timeline.open(opening, now)


def _until_close(
    policy: Policy,
    state: State,
    timeline: Timeline,
    download: int,
    now: float,
    used: list[Job],
) -> tuple[State, float, Close | None]:
    """Let everything happen until a round closes; None if none ever does."""
    while True:
        now, happening = next_moment(policy, state, timeline, now)
        if now == math.inf:
            return state, now, None
        event: Event
        match happening:
            case None:
                event = Reconnected(now)
            case Came(board) | Left(board):
                connected = isinstance(happening, Came)
                event = Received(presence_of(board, connected=connected), now)
            case Arrived(job):
                if not is_wanted(policy, state, job):
                    continue
                used.append(job)
                event = _result(policy, job, now)
        before = state.phase
        state, actions = rounds.step(policy, state, event)
        for action in actions:
            if isinstance(action, Close):
                return state, now, action
        if opening := opening_after(policy, before, state, download):
            timeline.open(opening, now)


def is_wanted(policy: Policy, state: State, job: Job) -> bool:
    """Whether the result of a job is of use now."""
    if job.kind == "test":
        return rounds.wants_counts(state, round_number=job.round_number, client=job.client)
    return rounds.wants(
        policy, state, run=policy.run, round_number=job.round_number, client=job.client
    )


def _result(policy: Policy, job: Job, now: float) -> Event:
    if job.kind == "train":
        return Stored(job.client, job.round_number, now)
    counts = ClientMetrics(run=policy.run, round=job.round_number, client=job.client, own={})
    return Received(counts, now)


def opening_after(
    policy: Policy, before: object, state: State, download: int
) -> Opening | None:
    """The round that has been opened, or opened again for more clients; or for fewer, or for
    more in a buffered round, which they learn without another download."""
    phase = state.phase
    if not isinstance(phase, Working):
        return None
    if isinstance(before, Working) and before.round_number == phase.round_number:
        if before.selected == phase.selected:
            return None
        if policy.buffer or {*phase.selected} < {*before.selected}:
            download = 0
    return Opening(
        phase.round_number, phase.untrained, phase.untested, download, started=phase.started
    )
