"""PURE: which clients train in a round, how many, and which are not waited for any more."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from common.privacy.rules import LEAST_SECURE
from common.rng import dirichlet, generator
from fl_server.rounds.state import Board, Policy, State, Working

EVEN: Mapping[int, float] = {}
LEAST = 1e-6  # of all chances, this part is the same for all: a tiny gamma draws exact zeros


def chances_of(participants: Sequence[int], *, gamma: float, seed: int) -> Mapping[int, float]:
    """How likely each participant is drawn, the same all run long; empty if all are alike."""
    if gamma == 0:
        return EVEN
    drawn = dirichlet(generator(seed, "participation"), gamma, np.ones(len(participants)))
    chances = (1 - LEAST) * drawn + LEAST / len(participants)
    return dict(zip(participants, chances.tolist(), strict=True))


def draw(
    candidates: Collection[int],
    wanted: int,
    *,
    seed: int,
    round_number: int,
    chances: Mapping[int, float] = EVEN,
    turn: int = 0,
) -> tuple[int, ...]:
    """Draw so many of the candidates (or all, if they are fewer) for a round.

    `turn` tells several draws of a round apart.
    """
    ordered = sorted(candidates)
    if wanted >= len(ordered):
        return tuple(ordered)
    weights = None
    if chances:
        weights = np.array([chances[client] for client in ordered])
        weights /= weights.sum()
    address = (round_number, turn) if turn else (round_number,)
    rng = generator(seed, "selection", *address)
    drawn = rng.choice(len(ordered), wanted, replace=False, p=weights)
    return tuple(sorted(ordered[index] for index in drawn))


def share_of(population: int, rate: float) -> int:
    """How many clients a rate selects; at least one."""
    return max(1, round(rate * population))


def goal(policy: Policy) -> int | None:
    """How many updates of a round count if more clients are selected; None: all."""
    return share_of(len(policy.participants), policy.rate) if policy.extra else None


def enough(policy: Policy) -> int:
    """How many clients a round of training must have."""
    least = max(policy.min_updates, LEAST_SECURE if policy.threshold else 1)
    return min(least, share_of(len(policy.participants), policy.rate))


def not_given_up(policy: Policy, state: State, now: float) -> frozenset[int]:
    """Registered clients whose board is there, or lost for less than `grace`."""
    return frozenset(
        client
        for client, name in state.owned.items()
        if not _is_given_up(policy, state.boards[name], client, now)
    )


def is_overdue(policy: Policy, state: State, phase: Working, client: int, now: float) -> bool:
    """Whether a round may go on without a client."""
    board = state.board_of(client)
    given_up = board is not None and _is_given_up(policy, board, client, now)
    if now - phase.opened >= policy.deadline or given_up:
        return True
    if client in phase.failed:
        return now - phase.failed[client] >= policy.grace
    return board is None and now - phase.opened >= policy.grace


def _is_given_up(policy: Policy, board: Board, client: int, now: float) -> bool:
    lost_since = board.lost_since(client)
    return lost_since is not None and now - lost_since >= policy.grace
