"""PURE: what a site's relay does with a round, a repetition, a restart, an end.

The coordinator sees one board, the site's boards see a coordinator:

    train_detail of a run that has not ended        -> open that run, if sums are exact
    current_round and selected agree on a round     -> open it on the site, with its model
    the model is not here, and no part came lately  -> ask the coordinator for it
    a board asks for the model                      -> send it again
    info, metrics of a board                        -> to the coordinator, as the site's
    an update is stored                             -> safe for its board
    everybody has sent an update, or those who have
    not are lost, failed, or the deadline is near   -> the sum of all that have goes up, until
                                                       the coordinator lists them as safe
    some of a sum are safe already                  -> the others go up by themselves
    a board is lost or back                         -> the coordinator is told which clients
    train_end of the open run                       -> close it, tell the boards

Nobody is dropped here: the coordinator decides how long it waits. `current_round` of the site
lists as safe what is stored here, under an incarnation that grows with every start of either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from common.wire.messages import (
    CurrentRound,
    Selected,
    TrainDetail,
    TrainEnd,
    newest,
)
from fl_server.rounds.boards import all_present, note_silence
from fl_server.site.boards import note_board, notes, unpublished
from fl_server.site.duties import (
    agreed,
    ask_for_model,
    publish,
    publish_everything,
    report_away,
    send_sums,
)
from fl_server.site.state import (
    REPEAT_SECONDS,
    Action,
    CloseRun,
    Event,
    FromBoard,
    FromCoordinator,
    OpenRound,
    OpenRun,
    PartReceived,
    Policy,
    RoundOpened,
    RunOpened,
    RunRefused,
    SendModel,
    SiteUp,
    State,
    Stored,
    Strayed,
    SumStreamed,
    Tick,
    ToSite,
    UplinkUp,
    Work,
)

MOST_ENDED = 64  # runs whose end is remembered
Step = tuple[State, tuple[Action, ...]]
M = TypeVar("M", CurrentRound, Selected)


def step(policy: Policy, state: State, event: Event) -> Step:
    """First note what the event means, then do everything that has become due."""
    noted, actions = _note(policy, state, event)
    moved, more = _advance(policy, noted, event.now)
    return moved, actions + more


def wants(policy: Policy, state: State, *, run: str, round_number: int, client: int) -> bool:
    """Whether a client's update would be of use now."""
    work, together = state.work, agreed(state)
    if work is None or together is None or not work.ready or client not in policy.clients:
        return False
    current, selected = together
    return (
        (run, round_number) == (work.run, work.round) == (current.run, current.round)
        and client in selected.clients
        and client not in work.stored
        and client not in current.safe
    )


# what an event means


def _note(policy: Policy, state: State, event: Event) -> Step:
    match event:
        case FromCoordinator(message):
            return _note_coordinator(state, message)
        case FromBoard(message, now):
            return note_board(policy, state, message, now)
        case PartReceived():
            return _note_part(state, event)
        case RunOpened() | RunRefused() | RoundOpened():
            return _note_opened(policy, state, event)
        case Stored():
            return _note_stored(state, event), ()
        case Strayed():
            return unpublished(state), ()
        case SumStreamed():
            return _note_streamed(state, event), ()
        case SiteUp() | UplinkUp() | Tick():
            return _note_time(policy, state, event)


def _note_time(policy: Policy, state: State, event: SiteUp | UplinkUp | Tick) -> Step:
    match event:
        case SiteUp(now):
            present = replace(state, boards=all_present(state.boards, now))
            return publish_everything(policy, present, now)
        case UplinkUp(now):
            return _note_uplink(state, now), ()
        case Tick(now):
            boards, told = note_silence(state.boards, now)
            return replace(state, boards=boards), notes(told)


def _note_coordinator(
    state: State, message: TrainDetail | CurrentRound | Selected | TrainEnd
) -> Step:
    match message:
        case TrainDetail():
            again = state.refused if state.refused == message.run else ""
            news = state.work is not None and state.work.run == message.run
            changed = news and message != state.detail
            noted = replace(state, detail=message, refused=again)
            return noted, ((ToSite(message),) if changed else ())
        case CurrentRound(run=run):
            newer = newest(state.current.get(run), message)
            current = {**_of_wanted_run(state, state.current), run: newer}
            return unpublished(replace(state, current=current)), ()
        case Selected(run=run):
            known, current_round = state.selected.get(run), state.current.get(run)
            if known and current_round and message.round < known.round == current_round.round:
                return state, ()
            selected = {**_of_wanted_run(state, state.selected), run: message}
            return unpublished(replace(state, selected=selected)), ()
        case TrainEnd(run=run):
            kept = state.ended if len(state.ended) < MOST_ENDED else frozenset()
            return replace(state, ended=kept | {run}), (ToSite(message),)


def _of_wanted_run(state: State, known: Mapping[str, M]) -> dict[str, M]:
    wanted = state.detail.run if state.detail is not None else None
    return {run: message for run, message in known.items() if run == wanted}


def _note_part(state: State, part: PartReceived) -> Step:
    state = replace(state, part_at=part.now)
    if not part.complete:
        return state, ()
    state, work = replace(state, model=(part.run, part.round)), state.work
    if work is None or not work.ready or (work.run, work.round) != (part.run, part.round):
        return state, ()
    sent = replace(state, work=replace(work, model_sent=part.now))
    return sent, (SendModel(part.run, part.round),)


def _note_stored(state: State, event: Stored) -> State:
    work = state.work
    if work is None or (work.run, work.round) != (event.run, event.round):
        return state
    stored, odd = work.stored | {event.client}, work.odd
    if event.odd:
        odd |= {event.client}
    failed = {client: at for client, at in work.failed.items() if client != event.client}
    noted = replace(work, stored=stored, odd=odd, failed=failed, unpublished=True)
    return replace(state, work=noted)


def _note_streamed(state: State, event: SumStreamed) -> State:
    work = state.work
    if work is None or work.round != event.round or event.clients not in work.sums:
        return state
    sums = {**work.sums, event.clients: event.now}
    return replace(state, work=replace(work, sums=sums))


def _note_opened(
    policy: Policy, state: State, event: RunOpened | RunRefused | RoundOpened
) -> Step:
    match event:
        case RunOpened(run, grace, deadline, now) if state.opening == run:
            opened = replace(state, opening="", work=Work(run, grace, deadline))
            return publish_everything(policy, opened, now)
        case RunRefused(run) if state.opening == run:
            return replace(state, opening="", refused=run), ()
        case RoundOpened(run, number, stored, odd, now):
            work = state.work
            if work is None or (work.run, work.round) != (run, number) or work.ready:
                return state, ()
            work = replace(work, ready=True, stored=stored, odd=odd, opened=now)
            return publish_everything(policy, replace(state, work=work), now)
        case _:
            return state, ()


def _note_uplink(state: State, now: float) -> State:
    state = replace(state, part_at=now)
    if state.work is None:
        return state
    unsent = dict.fromkeys(state.work.sums, -REPEAT_SECONDS)
    return replace(state, work=replace(state.work, sums=unsent))


# what has become due


def _advance(policy: Policy, state: State, now: float) -> Step:
    state, away = report_away(policy, state)
    state, switched = _switch_run(state)
    state, opened = _open_round(state)
    state, published = publish(policy, state, now)
    state, sent = send_sums(policy, state, now)
    state, asked = ask_for_model(policy, state, now)
    return state, (*away, *switched, *opened, *published, *sent, *asked)


def _switch_run(state: State) -> Step:
    detail = state.detail
    wanted = detail.run if detail is not None and detail.run not in state.ended else ""
    actions: tuple[Action, ...] = ()
    if state.work is not None and state.work.run != wanted:
        actions = (CloseRun(state.work.run),)
        state = replace(state, work=None)
    if detail is None or not wanted or state.work is not None or state.opening == wanted:
        return state, actions
    if state.refused == wanted:
        return state, actions
    return replace(state, opening=wanted), (*actions, OpenRun(detail))


def _open_round(state: State) -> Step:
    work, together = state.work, agreed(state)
    if work is None or together is None or together[0].round == work.round:
        return state, ()
    number = together[0].round
    fresh = Work(work.run, work.grace, work.deadline, number)
    return replace(state, work=fresh), (OpenRound(work.run, number),)
