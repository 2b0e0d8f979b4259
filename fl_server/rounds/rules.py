"""PURE: rules by which clients are selected, from what is known of them.

What is known comes from rounds that are aggregated, and is kept with their checkpoints: a run
that is resumed selects the same clients. A rule of a user's own is a function like these.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from common.errors import FedbedError
from common.rng import generator
from fl_server.rounds.phases import Known
from fl_server.rounds.selection import draw
from fl_server.rounds.state import Policy, State

RANDOM = "random"
CHOICES = 3  # power of choice: so many are drawn for each that is selected
EXPLORE = 0.2  # speed: this share is drawn, whatever is known
PENALTY = 2.0  # speed: how much slowness counts; Oort's alpha
NOTHING = Known()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A client that could be selected, and what is known of it.

    `loss` (of its last training that counted), `seconds` (of that training) and `samples` are
    None or 0 before its first; `used` is the last round that used its update, 0 before that.
    `chance` is how likely it is drawn (`selection.gamma`).
    """

    client: int
    board: str
    chance: float
    samples: int
    loss: float | None
    seconds: float | None
    used: int


Rule: TypeAlias = Callable[[Sequence[Candidate], int, np.random.Generator], Collection[int]]
OWN: dict[str, Rule] = {}  # users' own rules, by their places


def power_of_choice(
    candidates: Sequence[Candidate], wanted: int, rng: np.random.Generator
) -> list[int]:
    """Of several drawn for each place those with the highest loss (Cho et al., 2020)."""
    drawn = _drawn(candidates, min(CHOICES * wanted, len(candidates)), rng)
    worst = sorted(drawn, key=lambda one: -(np.inf if one.loss is None else one.loss))
    return [one.client for one in worst[:wanted]]


def by_speed(
    candidates: Sequence[Candidate], wanted: int, rng: np.random.Generator
) -> list[int]:
    """Who is quick and has much to learn; the idea of Oort (Lai et al., 2021).

    Utility is samples times loss, less for those that take longer than the median. A share is
    drawn instead, first of those of whom nothing is known.
    """
    known = [one for one in candidates if one.seconds is not None]
    best = sorted(known, key=lambda one: -_utility(one, known))
    exploit = best[: wanted - max(1, round(EXPLORE * wanted))]
    others = [one for one in candidates if one not in exploit]
    fresh = [one for one in others if one.seconds is None] or others
    explored = _drawn(fresh, min(wanted - len(exploit), len(fresh)), rng)
    chosen = [*exploit, *explored]
    rest = [one for one in best if one not in chosen]
    return [one.client for one in [*chosen, *rest][:wanted]]


def round_robin(
    candidates: Sequence[Candidate], wanted: int, _rng: np.random.Generator
) -> list[int]:
    """Board after board, and on each client after client: who has waited longest."""
    chosen: list[int] = []
    left = list(candidates)
    turn = {board: max(c.used for c in left if c.board == board) for board in _boards(left)}
    while left and len(chosen) < wanted:
        one = min(left, key=lambda c: (turn[c.board], c.used, c.client))
        chosen.append(one.client)
        left.remove(one)
        turn[one.board] = max(turn.values()) + 1
    return chosen


RULES: dict[str, Rule] = {
    "power-of-choice": power_of_choice,
    "speed": by_speed,
    "round-robin": round_robin,
}


def pick(
    policy: Policy,
    state: State,
    clients: Collection[int],
    wanted: int,
    *,
    round_number: int,
    turn: int = 0,
) -> tuple[int, ...]:
    """Select so many of these clients (or all, if they are fewer) by the experiment's rule.

    `turn` tells several selections of a round apart.
    """
    seed, chances = policy.seed, policy.chances
    if policy.rule == RANDOM or wanted >= len(clients):
        return draw(
            clients, wanted, seed=seed, round_number=round_number, chances=chances, turn=turn
        )
    rule = RULES.get(policy.rule) or OWN.get(policy.rule)
    if rule is None:
        raise FedbedError(f"selection.rule is {policy.rule!r}, whose code is not here")
    candidates = [
        _candidate(policy, state, client, state.owner(client) or "")
        for client in sorted(clients)
    ]
    rng = generator(seed, "selection", round_number, turn)
    chosen = {int(client) for client in rule(candidates, wanted, rng)}
    if len(chosen) != wanted or not chosen <= {*clients}:
        raise FedbedError(
            f"selection.rule {policy.rule!r} selected {sorted(chosen)[:20]}; expected {wanted} "
            "different ones of the candidates"
        )
    return tuple(sorted(chosen))


def _candidate(policy: Policy, state: State, client: int, board: str) -> Candidate:
    known, used = state.known.get(client, NOTHING), state.accepted.get(client, 0)
    chance = policy.chances.get(client, 1.0)
    return Candidate(client, board, chance, known.samples, known.loss, known.seconds, used)


def _drawn(
    candidates: Sequence[Candidate], count: int, rng: np.random.Generator
) -> list[Candidate]:
    if not count:
        return []
    weights = np.array([one.chance for one in candidates])
    places = rng.choice(len(candidates), count, replace=False, p=weights / weights.sum())
    return [candidates[place] for place in places]


def _utility(one: Candidate, known: Sequence[Candidate]) -> float:
    usual = float(np.median([c.seconds for c in known if c.seconds is not None]))
    gain = max(one.samples, 1) * (1.0 if one.loss is None else max(one.loss, 0.0))
    slowness = (one.seconds or 0.0) / usual if usual else 1.0
    return gain / float(slowness**PENALTY) if slowness > 1 else gain


def _boards(candidates: Sequence[Candidate]) -> set[str]:
    return {one.board for one in candidates}
