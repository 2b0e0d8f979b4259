"""PURE: what a relay still has to do in a round: publish it, send sums, ask for the model."""

from __future__ import annotations

import math
from dataclasses import replace

from common.wire.messages import CurrentRound, Info, Selected, TrainEnd
from common.wire.tensors import MOST_MEMBERS
from fl_server.site.state import (
    REPEAT_SECONDS,
    Action,
    Policy,
    PublishAway,
    SendModel,
    SendSum,
    State,
    ToSite,
    ToUplink,
    Work,
)

REPEAT_AT_MOST = 30.0
CONFIRM_SECONDS = 0.25
PATIENCE_SECONDS = 10.0  # for a board that is lost, before the others' sum goes up
NEAR_DEADLINE = 0.75  # of the deadline: from then on everything goes up as it comes

Step = tuple[State, tuple[Action, ...]]


def agreed(state: State) -> tuple[CurrentRound, Selected] | None:
    """What the coordinator says of the open run's round, once its messages agree."""
    work = state.work
    if work is None:
        return None
    current, selected = state.current.get(work.run), state.selected.get(work.run)
    if current is None or selected is None or current.round != selected.round:
        return None
    return current, selected


def report_away(policy: Policy, state: State) -> Step:
    """Publish which clients have no board, if that has changed."""
    there = state.boards.registered(connected=True)
    away = tuple(sorted(set(policy.clients) - there))
    if away == state.away:
        return state, ()
    return replace(state, away=away), (PublishAway(away),)


# the site


def publish(policy: Policy, state: State, now: float) -> Step:
    """What has changed, and everything now and then while boards have something to do."""
    work, together = state.work, agreed(state)
    if work is None or together is None or not work.ready:
        return state, ()
    messages = _messages(policy, work, *together)
    if now - work.repeated >= work.gap and _pending(policy, work, *together):
        gap = min(2 * work.gap, REPEAT_AT_MOST)
        work = replace(work, published=now, repeated=now, gap=gap, unpublished=False)
        detail = (ToSite(state.detail),) if state.detail is not None else ()
        return replace(state, work=work), (*detail, *messages)
    if work.unpublished and now - work.published >= CONFIRM_SECONDS:
        work = replace(work, published=now, unpublished=False)
        return replace(state, work=work), messages
    return state, ()


def publish_everything(policy: Policy, state: State, now: float) -> Step:
    """All that boards need to take part, as after a reconnect."""
    detail, work, together = state.detail, state.work, agreed(state)
    if detail is not None and detail.run in state.ended:
        return state, (ToSite(TrainEnd(run=detail.run, reason="finished")),)
    if detail is None or work is None or detail.run != work.run:
        return state, ()
    if together is None or not work.ready:
        return state, (ToSite(detail),)
    model: tuple[Action, ...] = ()
    if state.model == (work.run, work.round):
        model = (SendModel(work.run, work.round),)
        work = replace(work, model_sent=now)
    messages = _messages(policy, work, *together)
    work = replace(work, published=now, repeated=now, unpublished=False)
    return replace(state, work=work), (ToSite(detail), *model, *messages)


def _messages(
    policy: Policy, work: Work, current: CurrentRound, selected: Selected
) -> tuple[ToSite, ToSite]:
    """The round as the site's boards see it: their own clients only."""
    mine = set(policy.clients)
    site_current = CurrentRound(
        run=work.run,
        round=current.round,
        incarnation=current.incarnation + policy.start,
        safe=tuple(sorted(mine.intersection(current.safe) | work.stored)),
        measured=tuple(sorted(mine.intersection(current.measured))),
        accepted={c: at for c, at in current.accepted.items() if c in mine},
    )
    site_selected = Selected(
        run=work.run,
        round=selected.round,
        clients=tuple(sorted(mine.intersection(selected.clients))),
        testers=tuple(sorted(mine.intersection(selected.testers))),
    )
    return ToSite(site_current), ToSite(site_selected)


def _pending(policy: Policy, work: Work, current: CurrentRound, selected: Selected) -> bool:
    """Whether a board of the site has something to do in this round."""
    untrained = set(selected.clients).difference(current.safe) - work.stored
    untested = set(selected.testers).difference(current.measured)
    return not set(policy.clients).isdisjoint(untrained | untested)


# the coordinator


def send_sums(policy: Policy, state: State, now: float) -> Step:
    """Send what goes up, repeatedly, until the coordinator lists it as safe."""
    work, together = state.work, agreed(state)
    if work is None or together is None or not work.ready:
        return state, ()
    current, selected = together
    open_clients = set(policy.clients).intersection(selected.clients).difference(current.safe)
    sums = {
        clients: at for clients, at in work.sums.items() if open_clients.issuperset(clients)
    }
    free = (open_clients & work.stored).difference(*sums)
    for client in sorted(free & work.odd):
        sums[(client,)] = -math.inf
    if all(_is_not_waited_for(state, work, c, now) for c in open_clients - work.stored):
        together_now = sorted(free - work.odd)
        for start in range(0, len(together_now), MOST_MEMBERS):
            sums[tuple(together_now[start : start + MOST_MEMBERS])] = -math.inf
    due = [clients for clients, at in sums.items() if now - at >= REPEAT_SECONDS]
    sums |= dict.fromkeys(due, math.inf)
    sent = tuple(SendSum(work.round, clients) for clients in due)
    return replace(state, work=replace(work, sums=sums)), sent


def _is_not_waited_for(state: State, work: Work, client: int, now: float) -> bool:
    """Whether the sum goes up without a client; it may follow by itself."""
    if now - work.opened >= NEAR_DEADLINE * work.deadline:
        return True
    patience = min(PATIENCE_SECONDS, work.grace / 2)
    owner = state.boards.owner(client)
    lost = work.opened if owner is None else state.boards.boards[owner].lost_at
    if lost is not None and now - max(lost, work.opened) >= patience:
        return True
    return client in work.failed and now - work.failed[client] >= patience


def ask_for_model(policy: Policy, state: State, now: float) -> Step:
    """Report that the round's model is missing, if no part of it came lately."""
    work, together = state.work, agreed(state)
    if work is None or together is None or now - state.part_at < REPEAT_SECONDS:
        return state, ()
    current, selected = together
    wanted = set(policy.clients).intersection((*selected.clients, *selected.testers))
    if state.model == (work.run, current.round) or not wanted:
        return state, ()
    info = Info(
        run=work.run,
        round=current.round,
        client=min(wanted),
        board=policy.site,
        state="missing",
    )
    return replace(state, part_at=now), (ToUplink(info),)
