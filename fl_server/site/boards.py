"""PURE: what a message of a site's board means; see `machine.py`."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from common.wire.messages import ClientMetrics, Connected, Info
from fl_server.rounds import state as rounds
from fl_server.rounds.boards import note_presence
from fl_server.site.duties import Step, agreed
from fl_server.site.state import (
    REPEAT_SECONDS,
    Action,
    Note,
    Policy,
    SendModel,
    State,
    ToUplink,
)


def note_board(
    policy: Policy, state: State, message: Connected | Info | ClientMetrics, now: float
) -> Step:
    """A board's presence, progress or tests."""
    match message:
        case Connected():
            site = _as_rounds(policy)
            boards, told = note_presence(site, state.boards, message, now)
            work = state.work and replace(state.work, gap=REPEAT_SECONDS)
            return replace(state, boards=boards, work=work), notes(told)
        case Info():
            return _note_info(policy, state, message, now)
        case ClientMetrics():
            return _note_metrics(policy, state, message)


def _as_rounds(policy: Policy) -> rounds.Policy:
    """The boards of a site are known as a coordinator knows its own."""
    clients = policy.clients
    return rounds.Policy(run="", seed=0, rounds=0, participants=clients, start_with=0)


def _note_info(policy: Policy, state: State, info: Info, now: float) -> Step:
    owner = state.boards.owner(info.client) or info.board
    work = state.work
    if info.client not in policy.clients or owner != info.board or work is None:
        return state, ()
    if info.run != work.run:
        return state, ()
    upward = ToUplink(msgspec.structs.replace(info, board=policy.site))
    if info.state == "data":
        return state, (upward,)
    if info.round != work.round:
        return unpublished(state), ()
    if info.state == "missing":
        if state.model != (work.run, work.round) or now - work.model_sent < REPEAT_SECONDS:
            return state, ()
        sent = replace(state, work=replace(work, model_sent=now))
        return sent, (SendModel(work.run, work.round),)
    failed = {client: at for client, at in work.failed.items() if client != info.client}
    if info.state == "failed":
        failed = {info.client: now, **work.failed}
    elif info.state != "trained":  # a new attempt alone is no success
        failed = dict(work.failed)
    return replace(state, work=replace(work, failed=failed)), (upward,)


def _note_metrics(policy: Policy, state: State, message: ClientMetrics) -> Step:
    work, together = state.work, agreed(state)
    if work is None or together is None or message.client not in policy.clients:
        return state, ()
    current, _ = together
    if (message.run, message.round) != (current.run, current.round):
        return unpublished(state), ()
    if message.client in current.measured:
        return unpublished(state), ()
    return state, (ToUplink(message),)


def unpublished(state: State) -> State:
    """A board may not know how the round stands."""
    work = state.work and replace(state.work, unpublished=True)
    return replace(state, work=work)


def notes(actions: tuple[rounds.Action, ...]) -> tuple[Action, ...]:
    """What is to be reported of boards goes to the log."""
    return tuple(Note(each.fact.text) for each in actions if isinstance(each, rounds.Report))
