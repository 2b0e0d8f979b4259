"""PURE: what a board contributes to the steps of a secured round; see `duties.py`.

    step         what a client needs first                it sends
    keys         nothing                                  its keys of this round
    shares       the keys of all members                  shares of its secrets, sealed
    updates      shares of the others                     its update under masks (`duties.send`)
    opening      who has sent an update                   one share for each client

The step is named by `current_round`, what a client needs comes as its own download. Answers
are sent until `current_round` lists them.
"""

from __future__ import annotations

import math

from common.values import replace
from common.wire.messages import CurrentRound, Selected, Step
from fl_client.agent.duties import JobKey
from fl_client.agent.state import Action, Policy, ResultKey, SendSecret, State, Work

RESEND_SECONDS = 3.0
_ORDER: tuple[Step, ...] = ("", "keys", "shares", "updates", "opening")


def owed(policy: Policy, work: Work, current: CurrentRound, selected: Selected) -> list[int]:
    """Our clients of which this step wants an answer."""
    if not work.secure or current.step in ("", "updates"):
        return []
    mine = set(selected.clients).intersection(policy.clients)
    return sorted(mine.difference(current.answered))


def is_ready(state: State, work: Work, current: CurrentRound, client: int) -> bool:
    """Whether what a client needs for this step has arrived."""
    if current.step == "keys":
        return True
    run, round_number, step = state.steps.get(client, ("", 0, ""))
    if (run, round_number) != (work.run, current.round):
        return False
    return _ORDER.index(step) >= _ORDER.index(current.step)


def send_secrets(
    policy: Policy,
    state: State,
    work: Work,
    current: CurrentRound,
    selected: Selected,
    now: float,
) -> tuple[Work, set[JobKey], tuple[Action, ...]]:
    """Answer the open step, repeatedly; and who lacks something for that."""
    sent, actions, waiting = dict(work.sent), list[Action](), set[JobKey]()
    if work.secure and current.step == "updates":  # also of those whose update is on disk
        mine = set(selected.clients).intersection(policy.clients).difference(current.safe)
        lacking = (c for c in mine if not is_ready(state, work, current, c))
        waiting = {("train", c, current.round) for c in lacking}
    for client in owed(policy, work, current, selected):
        if not is_ready(state, work, current, client):
            waiting.add(("train", client, current.round))
            continue
        key: ResultKey = (current.step, client, current.round)
        if now - sent.get(key, -math.inf) >= RESEND_SECONDS:
            sent[key] = now
            actions.append(SendSecret(client, current.round, current.step))
    return replace(work, sent=sent), waiting, tuple(actions)
