"""PURE: who may use a board name, its client ids, or (for the coordinator) the federation.

Every party publishes its claim on `connected/<name>` and reads the claims of all others. A
claim is *settled* once no other party objected. A settled claim beats an unsettled one, then
the older one wins: it is the second party that is refused. But the claim of a rival may be that
of a dead party: retained, or queued in our session while we were away. So it counts only if the
rival answers: if a claim of it arrives after the broker has returned our own, which the rival
has received as well. Until then the rival is a suspect.

    unsettled  own claim returned, no suspects           -> settled
    unsettled  claim of a stronger rival, or a retained  -> a suspect, for PATIENCE
    unsettled  PATIENCE over, no answer                  -> settled
    settled    claim of a stronger rival                 -> a suspect, for ANSWER; publish our
                                                            claim
    any        the suspect answers and is stronger       -> refused
    any        the suspect leaves                        -> no suspect any more
    any        claim of a weaker rival                   -> publish our claim again
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
ANSWER_SECONDS = 2 * REPEAT_SECONDS
MOST_SUSPECTS = 64


@dataclass(frozen=True, slots=True)
class ClaimState:
    """Our claim, and which rivals may have what we claim.

    `echoed`: the broker has returned our claim since this connection was made, or since we
    published it for a rival to answer. `suspects` has, for every instance, until when we wait.
    """

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
    return dataclasses.replace(state, claim=claim, echoed=False), (PublishClaim(claim),)


def received(
    state: ClaimState, other: Connected, *, stored: bool, now: float
) -> tuple[ClaimState, tuple[Outcome, ...]]:
    """The claim of another party, or our own coming back."""
    mine = state.claim
    if other.instance == mine.instance and other.board == mine.board:
        return _own_claim(state, other, stored=stored, now=now)
    if not other.connected:
        left = {name: end for name, end in state.suspects.items() if name != other.instance}
        return _settle(
            dataclasses.replace(state, suspects=left),
            now,
            (PublishClaim(mine),) if other.board == mine.board else (),
        )
    if not clash(mine, other):
        return state, ()
    if stored or _rank(other) < _rank(mine):
        return _rival(state, other, stored=stored, now=now)
    return state, (PublishClaim(mine),)


def _own_claim(
    state: ClaimState, returned: Connected, *, stored: bool, now: float
) -> tuple[ClaimState, tuple[Outcome, ...]]:
    mine = state.claim
    if not returned.connected:
        return state, (() if returned.session < mine.session else (PublishClaim(mine),))
    if stored or returned.session != mine.session:  # of an earlier connection
        return state, ()
    suspected = not mine.settled and not state.echoed and state.suspects
    # an answer may have overtaken our claim on its way through a cluster of brokers: ask again
    ask = (PublishClaim(mine),) if suspected else ()
    return _settle(dataclasses.replace(state, echoed=True), now, ask)


def _rival(
    state: ClaimState, other: Connected, *, stored: bool, now: float
) -> tuple[ClaimState, tuple[Outcome, ...]]:
    mine = state.claim
    if state.echoed and not stored and state.suspects.get(other.instance, now) > now:
        return state, (Refused(explain(mine, other), clear=other.board != mine.board),)
    patience = ANSWER_SECONDS if mine.settled else PATIENCE_SECONDS
    suspects = dict(state.suspects)
    if other.instance in suspects or len(suspects) < MOST_SUSPECTS:
        suspects[other.instance] = now + patience
    ask = mine.settled or state.echoed
    suspicious = dataclasses.replace(state, suspects=suspects, echoed=not ask and state.echoed)
    return suspicious, ((PublishClaim(mine),) if ask else ())


def cleared(state: ClaimState, board: str) -> tuple[ClaimState, tuple[Outcome, ...]]:
    """A retained claim was removed, perhaps by a refused party with the same board name."""
    return state, ((PublishClaim(state.claim),) if board == state.claim.board else ())


def tick(state: ClaimState, now: float) -> tuple[ClaimState, tuple[Outcome, ...]]:
    """Time passes: rivals that did not answer are dead; and ours is published now and then."""
    if state.claim.settled and now - state.published_at >= REPEAT_SECONDS:
        return dataclasses.replace(state, published_at=now), (PublishClaim(state.claim),)
    return _settle(state, now)


def _settle(
    state: ClaimState, now: float, outcomes: tuple[Outcome, ...] = ()
) -> tuple[ClaimState, tuple[Outcome, ...]]:
    """Settle our claim if it is time; `outcomes` come first."""
    if any(end <= now for end in state.suspects.values()):
        suspects = {name: end for name, end in state.suspects.items() if end > now}
        state = dataclasses.replace(state, suspects=suspects)
    if state.claim.settled or not state.echoed or state.suspects:
        return state, outcomes
    claim = msgspec.structs.replace(state.claim, settled=True)
    return dataclasses.replace(state, claim=claim), (
        *outcomes,
        PublishClaim(claim),
        Settled(),
    )


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
