"""PURE: how a secured round (`common/privacy/secure.py`) goes from step to step.

    keys     everybody selected has sent keys or is overdue,
             and enough have                                     -> shares
    shares   everybody with keys has sent shares or is overdue,
             and as many have as the threshold says              -> updates
    updates  everybody with shares has sent an update or is
             overdue, and as many have                           -> opening
    opening  as many have answered                               -> the round closes
    any      everybody else is overdue, but fewer have           -> the round closes with no sum
             (at once if others are enough for another round; it waits for them otherwise)

Who is in a step is decided when it begins, journaled before it is published, and never changes:
masks only cancel if everybody means the same clients.
"""

from __future__ import annotations

from common.privacy.rules import needed
from common.values import replace
from common.wire.messages import Info, Step
from fl_server.rounds.boards import note_sign_of_life, unpublished
from fl_server.rounds.selection import enough, is_overdue, not_given_up
from fl_server.rounds.state import (
    Action,
    Answered,
    Policy,
    Report,
    SendSecrets,
    Settle,
    State,
    Working,
)
from fl_server.rounds.steps import Sealing
from fl_server.watch import facts

_NEXT: dict[Step, Step] = {"keys": "shares", "shares": "updates", "updates": "opening"}


def wants_secret(state: State, *, round_number: int, client: int, step: str) -> bool:
    """Whether what a client contributes to a step would be of use now."""
    phase = state.phase
    if not isinstance(phase, Working) or phase.sealing is None:
        return False
    right = (phase.round_number, phase.sealing.step) == (round_number, step)
    return right and client in phase.unanswered


def note_answer(state: State, event: Answered) -> tuple[State, tuple[Action, ...]]:
    """A client's contribution to a step is on disk."""
    client, phase = event.client, state.phase
    wanted = wants_secret(
        state, round_number=event.round_number, client=client, step=event.step
    )
    if not wanted or not isinstance(phase, Working) or phase.sealing is None:
        return unpublished(state), ()
    sealing = replace(phase.sealing, answered=phase.sealing.answered | {client})
    noted = replace(state, phase=replace(phase, sealing=sealing, unpublished=True))
    return note_sign_of_life(noted, client, event.now), ()


def note_refusal(state: State, phase: Working, info: Info) -> tuple[State, tuple[Action, ...]]:
    """A client takes no part in the rest of the round, or does not open what we asked for."""
    about = f"client {info.client} on board {info.board}"
    if info.state == "refused":
        text = f"{about} refuses to open round {info.round}: {info.problem}"
        return state, (Report(facts.RevealRefused(text, info.board, info.client)),)
    if phase.sealing is None or info.client not in (phase.unanswered | phase.untrained):
        return unpublished(state), ()
    if phase.sealing.step == "opening":
        return state, ()
    rejected = replace(phase, rejected=phase.rejected | {info.client}, unpublished=True)
    text = f"{about} takes no part in round {info.round}: {info.problem}"
    fact = facts.Rejected(text, info.board, info.client)
    return replace(state, phase=rejected), (Report(fact),)


def advance_step(
    policy: Policy, state: State, phase: Working, now: float
) -> tuple[Working, tuple[Action, ...]] | None:
    """What follows from the open step; None if it waits, or its sum can be opened."""
    sealing = phase.sealing
    if sealing is None or not sealing.step:
        return None
    waits = phase.unanswered | phase.untrained
    if not all(is_overdue(policy, state, phase, client, now) for client in waits):
        return None
    ready = phase.safe if sealing.step == "updates" else sealing.answered
    clients = tuple(sorted((ready & sealing.among(phase.selected)) - phase.rejected))
    if sealing.step == "opening":
        return _give_up(phase, sealing, len(clients)) if waits else None
    first = sealing.step == "keys"
    least = enough(policy) if first else min(policy.min_updates, len(sealing.clients))
    if waits and len(clients) < least:
        if first or len(not_given_up(policy, state, now)) < enough(policy):
            return None
        return _give_up(phase, sealing, len(clients))  # a round of others can begin
    threshold = needed(policy.threshold, len(clients)) if first else sealing.threshold
    if len(clients) < (max(least, threshold) if first else threshold):
        return _give_up(phase, sealing, len(clients))
    step = _NEXT[sealing.step]
    moved = replace(phase, sealing=Sealing(step, clients, threshold), opened=now)
    settle = Settle(phase.round_number, step, clients, threshold)
    return moved, (settle, SendSecrets(phase.round_number, clients))


def _give_up(phase: Working, sealing: Sealing, left: int) -> tuple[Working, tuple[Action, ...]]:
    wanted = f"{sealing.threshold} are needed" if sealing.threshold else "more are needed"
    text = (
        f"the sum of round {phase.round_number} is not opened: {left} of "
        f"{len(sealing.among(phase.selected))} clients are left ({sealing.step}), and {wanted}"
    )
    return replace(phase, sealing=Sealing("")), (Report(facts.Unopened(text)),)
