"""PURE: who may use a board name, its client ids, or (for the coordinator) the federation.

Every party publishes its claim on `connected/<name>` and reads the claims of all others. A
claim is *settled* once no other party objected. A settled claim beats an unsettled one, then
the older one wins: it is the second party that is refused. A retained claim may be that of a
dead party: it only counts if its owner answers within PATIENCE.

    unsettled  own claim received, no rival retained     -> settled
    unsettled  the retained claim of a rival             -> wait PATIENCE for a live one
    unsettled  PATIENCE over, no live claim              -> settled
    any        live claim of a stronger rival            -> refused
    any        live claim of a weaker rival              -> publish our claim again
    any        our retained claim was overwritten
               or removed                                -> publish our claim again
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from common.ids import brief_ids
from common.wire.messages import COORDINATOR, Connected

PATIENCE_SECONDS = 4.0
REPEAT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class ClaimState:
    """Our claim, whether it came back to us, and until when to wait for retained rivals."""

    claim: Connected
    echoed: bool = False
    suspects: Mapping[str, float] = field(default_factory=dict)
    published_at: float = 0.0


@dataclass(frozen=True, slots=True)
class PublishClaim:
    """Publish this claim."""

    claim: Connected


@dataclass(frozen=True, slots=True)
class Settled:
    """No other party objects: start working."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Another party has what we claim; `clear`: our own retained claim must be removed."""

    reason: str
    clear: bool


Outcome: TypeAlias = PublishClaim | Settled | Refused


def connect(state: ClaimState, connection: int) -> tuple[ClaimState, tuple[Outcome, ...]]:
    """A new connection: publish our claim with its number."""
    start = state.claim.session[0]
    claim = msgspec.structs.replace(state.claim, session=(start, connection))
    return dataclasses.replace(state, claim=claim), (PublishClaim(claim),)


def received(
    state: ClaimState, other: Connected, *, stored: bool, now: float
) -> tuple[ClaimState, tuple[Outcome, ...]]:
    """The claim of another party, or our own coming back."""
    mine = state.claim
    if other.instance == mine.instance and other.board == mine.board:
        if other.connected:
            return _settle(dataclasses.replace(state, echoed=True), now)
        return state, (() if other.session < mine.session else (PublishClaim(mine),))
    if other.board == mine.board and not other.connected:
        return state, (PublishClaim(mine),)
    if not clash(mine, other):
        return state, ()
    if stored:
        return _stored_rival(state, other, now)
    if _rank(other) < _rank(mine):
        return state, (Refused(explain(mine, other), clear=other.board != mine.board),)
    return state, (PublishClaim(mine),)


def _stored_rival(
    state: ClaimState, other: Connected, now: float
) -> tuple[ClaimState, tuple[Outcome, ...]]:
    if state.claim.settled:
        return state, (PublishClaim(state.claim),)
    suspects = {**state.suspects, other.instance: now + PATIENCE_SECONDS}
    return dataclasses.replace(state, suspects=suspects), ()


def cleared(state: ClaimState, board: str) -> tuple[ClaimState, tuple[Outcome, ...]]:
    """A retained claim was removed, perhaps by a refused party with the same board name."""
    return state, ((PublishClaim(state.claim),) if board == state.claim.board else ())


def tick(state: ClaimState, now: float) -> tuple[ClaimState, tuple[Outcome, ...]]:
    """Time passes: rivals that did not answer are dead; and ours is published now and then."""
    if state.claim.settled and now - state.published_at >= REPEAT_SECONDS:
        return dataclasses.replace(state, published_at=now), (PublishClaim(state.claim),)
    return _settle(state, now)


def _settle(state: ClaimState, now: float) -> tuple[ClaimState, tuple[Outcome, ...]]:
    if state.claim.settled or not state.echoed:
        return state, ()
    suspects = {name: end for name, end in state.suspects.items() if end > now}
    if suspects:
        return dataclasses.replace(state, suspects=suspects), ()
    claim = msgspec.structs.replace(state.claim, settled=True)
    settled = dataclasses.replace(state, claim=claim, suspects={})
    return settled, (PublishClaim(claim), Settled())


def clash(mine: Connected, other: Connected) -> bool:
    """Whether two claims exclude each other."""
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
        f"board {mine.board!r} claims clients {brief_ids(shared)}, but board {other.board!r} "
        f"({other.host}) already simulates them: give this one other --clients"
    )
