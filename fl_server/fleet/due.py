"""PURE: when a waiting machine would decide something although nothing happens."""

from __future__ import annotations

import math

from fl_server.rounds.state import Gathering, Policy, State, Working

LATER = 1e-6  # seconds: so that no rounding brings a moment before its time


def next_due(policy: Policy, state: State, now: float) -> float:
    """The next moment after `now` at which somebody may be overdue."""
    phase, waits = state.phase, list[float]()
    if isinstance(phase, Gathering) and state.done:
        waits = [phase.since + policy.grace]
    elif isinstance(phase, Working):
        lost = [board.lost_at for board in state.boards.values() if board.lost_at is not None]
        lost += [since for board in state.boards.values() for since in board.away.values()]
        waits = [at + policy.grace for at in (*lost, *phase.failed.values(), phase.opened)]
        waits.append(phase.opened + policy.deadline)
    return min((at + LATER for at in waits if at + LATER > now), default=math.inf)
