"""PURE: who may use a board name, its client ids, or (for the coordinator) the federation.

Everybody announces itself on `connected/<name>` and reads all announcements. A claim is
*settled* once nobody objected; settled claims beat others, then older ones win: it is the
second who is refused. A stored announcement may be a dead one's: it only counts when its owner
answers within PATIENCE.

    unsettled  own echo heard, no rival stored        -> settled
    unsettled  a stored rival                         -> wait PATIENCE for a live word of it
    unsettled  PATIENCE over, no live word            -> settled
    any        live word of a stronger rival          -> refused
    any        live word of a weaker rival            -> say the claim again
    any        our stored announcement was overwritten
               or removed                             -> say the claim again
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from common.ids import show_ids
from common.wire.messages import COORDINATOR, Connected

PATIENCE_SECONDS = 4.0
REPEAT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class ClaimState:
    """Our claim, whether its echo came back, and stored rivals that may be dead."""

    claim: Connected
    echoed: bool = False
    suspects: Mapping[str, float] = field(default_factory=dict)
    said: float = 0.0


@dataclass(frozen=True, slots=True)
class Say:
    """Publish this claim."""

    claim: Connected


@dataclass(frozen=True, slots=True)
class Settled:
    """Nobody objects: start working."""


@dataclass(frozen=True, slots=True)
class Beaten:
    """Somebody else has what we claim; `clear`: our own announcement must be removed."""

    reason: str
    clear: bool


Outcome: TypeAlias = Say | Settled | Beaten


def connect(state: ClaimState, connection: int) -> tuple[ClaimState, tuple[Outcome, ...]]:
    """A new connection: announce ourselves under its number."""
    start = state.claim.session[0]
    claim = msgspec.structs.replace(state.claim, session=(start, connection))
    return dataclasses.replace(state, claim=claim), (Say(claim),)


def hear(
    state: ClaimState, other: Connected, *, stored: bool, now: float
) -> tuple[ClaimState, tuple[Outcome, ...]]:
    """Somebody's announcement, our own included."""
    mine = state.claim
    if other.instance == mine.instance and other.board == mine.board:
        if other.connected:
            return _settle(dataclasses.replace(state, echoed=True), now)
        return state, (() if other.session < mine.session else (Say(mine),))
    if other.board == mine.board and not other.connected:
        return state, (Say(mine),)
    if not clash(mine, other):
        return state, ()
    if stored:
        return _hear_stored_rival(state, other, now)
    if _rank(other) < _rank(mine):
        return state, (Beaten(explain(mine, other), clear=other.board != mine.board),)
    return state, (Say(mine),)


def _hear_stored_rival(
    state: ClaimState, other: Connected, now: float
) -> tuple[ClaimState, tuple[Outcome, ...]]:
    if state.claim.settled:
        return state, (Say(state.claim),)
    suspects = {**state.suspects, other.instance: now + PATIENCE_SECONDS}
    return dataclasses.replace(state, suspects=suspects), ()


def cleared(state: ClaimState, board: str) -> tuple[ClaimState, tuple[Outcome, ...]]:
    """A stored announcement was removed, perhaps by a loser who had the same board name."""
    return state, ((Say(state.claim),) if board == state.claim.board else ())


def tick(state: ClaimState, now: float) -> tuple[ClaimState, tuple[Outcome, ...]]:
    """Time passes: rivals that never answered are dead, and others may think that of us."""
    if state.claim.settled and now - state.said >= REPEAT_SECONDS:
        return dataclasses.replace(state, said=now), (Say(state.claim),)
    return _settle(state, now)


def _settle(state: ClaimState, now: float) -> tuple[ClaimState, tuple[Outcome, ...]]:
    if state.claim.settled or not state.echoed:
        return state, ()
    suspects = {name: end for name, end in state.suspects.items() if end > now}
    if suspects:
        return dataclasses.replace(state, suspects=suspects), ()
    claim = msgspec.structs.replace(state.claim, settled=True)
    settled = dataclasses.replace(state, claim=claim, suspects={})
    return settled, (Say(claim), Settled())


def clash(mine: Connected, other: Connected) -> bool:
    """Whether both cannot be there at once."""
    if not other.connected or other.instance == mine.instance:
        return False
    return other.board == mine.board or not set(mine.clients).isdisjoint(other.clients)


def _rank(claim: Connected) -> tuple[bool, float, str]:
    return (not claim.settled, claim.since, claim.instance)


def explain(mine: Connected, other: Connected) -> str:
    """Why `mine` is refused, naming both."""
    if mine.board == COORDINATOR:
        return (
            f"another coordinator ({other.host}) is already running an experiment in this "
            "federation; wait for it, stop it, or use another --federation"
        )
    if mine.board == other.board:
        return (
            f"board name {mine.board!r} is already used by the daemon on {other.host}; "
            f"this one is on {mine.host}: give it another --board name"
        )
    shared = sorted(set(mine.clients) & set(other.clients))
    return (
        f"board {mine.board!r} claims clients {show_ids(shared)}, but board {other.board!r} "
        f"({other.host}) already simulates them: give this one other --clients"
    )
