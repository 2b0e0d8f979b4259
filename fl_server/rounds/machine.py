"""PURE: when a round starts, whom it waits for, when it closes, when the run ends.

    Gathering  enough participants connected                     -> Working(n + 1)
    Working    every pending client has answered or is overdue,
               and at least `min_updates` updates are safe       -> Closing
    Working    ... but fewer are safe, and others are there      -> Working, others selected too
    Closing    Aggregated                                        -> Gathering (and at once on)
    Closing    Aggregated, it was the round after the last, in
               which nobody trains and everybody tests           -> Finished

A client is overdue when its board has been lost (or has reported a failure) for longer than
`grace`, or when the round is older than `deadline`. Only when a round closes is it decided who
was dropped; until then everybody may still come back. Round n trains on, and tests, the model
that n - 1 rounds have made.

Where the run is, is said again while somebody is waited for: soon to boards that gave no sign
in this round, and now and then in any case, for nobody knows what else a board has lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from common.ids import show_ids
from common.wire.messages import (
    ClientMetrics,
    Connected,
    CurrentRound,
    Info,
    Selected,
    TrainEnd,
)
from fl_server.rounds.boards import (
    all_present,
    needs_telling,
    note_presence,
    note_silence,
    note_word,
)
from fl_server.rounds.selection import choose, draw, enough, is_overdue, not_given_up
from fl_server.rounds.state import (
    REPEAT_SECONDS,
    Action,
    Aggregated,
    Announce,
    Close,
    Closing,
    Event,
    Finish,
    Finished,
    Gathering,
    Heard,
    Note,
    Open,
    Phase,
    Policy,
    Publish,
    Reconnected,
    Rejected,
    SendWeights,
    State,
    Stored,
    Strayed,
    Tell,
    Tick,
    Working,
)

REPEAT_AT_MOST = 30.0
CONFIRM_SECONDS = 0.25
WAITING_SECONDS = 3.0


def start(*, incarnation: int, now: float) -> State:
    """A run that has not begun."""
    return State(Gathering(now), incarnation, started=now)


def resume(
    *,
    incarnation: int,
    done: int,
    accepted: Mapping[int, int],
    opened: Open | None,
    safe: frozenset[int],
    now: float,
) -> State:
    """A run as a stopped coordinator left it on disk: `done` rounds, maybe one open."""
    phase: Phase = Gathering(now)
    if opened is not None:
        phase = Working(opened.number, opened.selected, opened.testers, now, safe)
    return State(phase, incarnation, done, {}, dict(accepted), now)


def step(policy: Policy, state: State, event: Event) -> tuple[State, tuple[Action, ...]]:
    """First note what the event says, then do everything that has become due."""
    noted, actions = _note(policy, state, event)
    moved, more = _advance(policy, noted, event.now)
    return moved, actions + more


# what an event says


def _note(policy: Policy, state: State, event: Event) -> tuple[State, tuple[Action, ...]]:
    match event:
        case Heard(message, now):
            return _note_message(policy, state, message, now)
        case Stored() | Rejected():
            return _note_update(state, event)
        case Strayed():
            return _unsaid(state), ()
        case Aggregated(number, now):
            return _note_aggregated(policy, state, number)
        case Reconnected(now):
            return _say_everything(policy, all_present(state, now), now)
        case Tick(now):
            return note_silence(state, now)


def _note_message(
    policy: Policy, state: State, message: Connected | Info | ClientMetrics, now: float
) -> tuple[State, tuple[Action, ...]]:
    match message:
        case Connected():
            return note_presence(policy, state, message, now)
        case Info():
            return _note_info(policy, state, message, now)
        case ClientMetrics():
            return _note_metrics(policy, state, message, now)


def _note_info(
    policy: Policy, state: State, info: Info, now: float
) -> tuple[State, tuple[Action, ...]]:
    phase = state.phase
    if info.run != policy.run or not isinstance(phase, Working) or info.round != phase.number:
        return _unsaid(state), ()
    known = state.owner(info.client) == info.board
    heard = note_word(state, info.client, now) if known else state
    if info.state == "missing":
        if now - phase.weights_said < REPEAT_SECONDS:
            return heard, ()
        asked = replace(phase, weights_said=now)
        return replace(heard, phase=asked), (SendWeights(phase.number),)
    if info.state == "reset" and known:
        text = f"client {info.client} on board {info.board}: {info.problem}"
        return heard, (Note("state_lost", text, info.board, info.client),)
    if info.state == "failed" and known:
        failed = {info.client: now, **phase.failed}
        text = f"client {info.client} on board {info.board} failed: {info.problem}"
        note = Note("failed", text, info.board, info.client)
        return replace(heard, phase=replace(phase, failed=failed)), (note,)
    if info.state == "trained" and known:  # a new attempt alone is no success
        failed = {c: at for c, at in phase.failed.items() if c != info.client}
        return replace(heard, phase=replace(phase, failed=failed)), ()
    return heard, ()


def _note_metrics(
    policy: Policy, state: State, message: ClientMetrics, now: float
) -> tuple[State, tuple[Action, ...]]:
    phase = state.phase
    if message.run != policy.run or not isinstance(phase, Working):
        return state, ()
    if message.round != phase.number or message.client not in phase.untested:
        return _unsaid(state), ()
    measured = phase.measured | {message.client}
    counted = replace(state, phase=replace(phase, measured=measured, unsaid=True))
    return note_word(counted, message.client, now), (Tell(message),)


def _note_update(state: State, event: Stored | Rejected) -> tuple[State, tuple[Action, ...]]:
    phase = state.phase
    if not isinstance(phase, Working) or event.number != phase.number:
        return _unsaid(state), ()
    if event.client not in phase.untrained:
        return _unsaid(state), ()
    if isinstance(event, Stored):
        return replace(
            state, phase=replace(phase, safe=phase.safe | {event.client}, unsaid=True)
        ), ()
    text = f"update of client {event.client} in round {event.number} rejected: {event.reason}"
    rejected = replace(phase, rejected=phase.rejected | {event.client}, unsaid=True)
    return replace(state, phase=rejected), (Note("rejected", text, client=event.client),)


def _note_aggregated(
    policy: Policy, state: State, number: int
) -> tuple[State, tuple[Action, ...]]:
    phase = state.phase
    if not isinstance(phase, Closing) or phase.number != number:
        return state, ()
    if number > policy.rounds:
        reason = "finished"
        end = Publish(TrainEnd(run=policy.run, reason=reason))
        return replace(state, phase=Finished(reason)), (Finish(reason), end)
    accepted = {**state.accepted, **dict.fromkeys(phase.used, number)}
    between = Gathering(state.started)
    return replace(state, phase=between, accepted=accepted, done=number), ()


def _unsaid(state: State) -> State:
    if isinstance(state.phase, Working):
        return replace(state, phase=replace(state.phase, unsaid=True))
    return state


# what has become due


def _advance(policy: Policy, state: State, now: float) -> tuple[State, tuple[Action, ...]]:
    match state.phase:
        case Gathering(since):
            return _try_to_begin(policy, state, since, now)
        case Working() as phase:
            return _try_to_close(policy, state, phase, now)
        case Closing() | Finished():
            return state, ()


def _try_to_begin(
    policy: Policy, state: State, since: float, now: float
) -> tuple[State, tuple[Action, ...]]:
    first = state.done == 0
    there = len(state.registered(connected=first))
    tired = not first and now - since >= policy.grace
    if there < enough(policy) or (there < policy.start_with and not tired):
        return state, ()
    return _open(policy, state, state.done + 1, now)


def _open(
    policy: Policy, state: State, number: int, now: float
) -> tuple[State, tuple[Action, ...]]:
    here = not_given_up(policy, state, now)
    candidates = here if len(here) >= enough(policy) else state.registered()
    selected: tuple[int, ...] = ()
    if number <= policy.rounds:
        selected = choose(
            candidates,
            population=len(policy.participants),
            rate=policy.rate,
            seed=policy.seed,
            number=number,
            chances=policy.chances,
        )
    due = (number - 1) % policy.evaluate_every == 0 or number > policy.rounds
    testers = tuple(sorted(candidates)) if due else ()
    opened = replace(state, phase=Working(number, selected, testers, now))
    said, actions = _say_everything(policy, opened, now)
    return said, (Open(number, selected, testers), *actions)


def _try_to_close(
    policy: Policy, state: State, phase: Working, now: float
) -> tuple[State, tuple[Action, ...]]:
    if not all(is_overdue(policy, state, phase, client, now) for client in phase.pending):
        return _repeat(policy, *_note_waiting(state, phase, now), now)
    lacking = min(enough(policy), len(phase.selected)) - len(phase.safe)
    if lacking <= 0 or not phase.untrained:
        return _close(policy, state, phase)
    others = not_given_up(policy, state, now).difference(phase.selected)
    if not others:
        return _repeat(policy, *_note_waiting(state, phase, now), now)
    called = draw(
        others, lacking, seed=policy.seed, number=phase.number, chances=policy.chances
    )
    selected = tuple(sorted({*phase.selected, *called}))
    text = f"round {phase.number} lacks updates: clients {show_ids(called)} train instead"
    more = replace(state, phase=replace(phase, selected=selected, opened=now))
    said, actions = _say_everything(policy, more, now)
    opened = Open(phase.number, selected, phase.testers)
    return said, (Note("called", text), opened, *actions)


def _close(policy: Policy, state: State, phase: Working) -> tuple[State, tuple[Action, ...]]:
    used = tuple(sorted(phase.safe))
    dropped = tuple(sorted(phase.untrained))
    notes: tuple[Action, ...] = ()
    if dropped:
        text = f"round {phase.number} goes on without clients {show_ids(dropped)}"
        notes = (Note("dropped", text),)
    if phase.untested:
        text = f"round {phase.number} has no counts of clients {show_ids([*phase.untested])}"
        notes += (Note("uncounted", text),)
    close = Close(phase.number, used, dropped, training=phase.number <= policy.rounds)
    return replace(state, phase=Closing(phase.number, used)), (*notes, close)


def _note_waiting(
    state: State, phase: Working, now: float
) -> tuple[State, Working, tuple[Action, ...]]:
    """Say (once) when a round has only boards to wait for that are not there."""
    if now - phase.opened < WAITING_SECONDS or phase.waited == phase.pending:
        return state, phase, ()
    if not phase.pending.isdisjoint(state.registered(connected=True)):
        return state, phase, ()
    phase = replace(phase, waited=phase.pending)
    text = f"round {phase.number} waits for clients {show_ids([*phase.pending])}, whose boards"
    note = Note("waiting", f"{text} are lost")
    return replace(state, phase=phase), phase, (note,)


def _repeat(
    policy: Policy, state: State, phase: Working, notes: tuple[Action, ...], now: float
) -> tuple[State, tuple[Action, ...]]:
    since = now - phase.repeated
    if since >= REPEAT_AT_MOST or (
        since >= phase.gap and needs_telling(state, phase.pending, phase.number)
    ):
        gap = min(2 * phase.gap, REPEAT_AT_MOST)
        again = replace(phase, said=now, repeated=now, gap=gap, unsaid=False)
        said: tuple[Action, ...] = (Announce(), *_where_we_are(policy, state, phase))
        return replace(state, phase=again), notes + said
    if phase.unsaid and now - phase.said >= CONFIRM_SECONDS:
        confirmed = replace(phase, unsaid=False, said=now)
        return replace(state, phase=confirmed), notes + _where_we_are(policy, state, phase)
    return state, notes


def _say_everything(
    policy: Policy, state: State, now: float
) -> tuple[State, tuple[Action, ...]]:
    match state.phase:
        case Working() as phase:
            said = replace(phase, said=now, repeated=now, weights_said=now, unsaid=False)
            return replace(state, phase=said), (
                Announce(),
                SendWeights(phase.number),
                *_where_we_are(policy, state, phase),
            )
        case Finished(reason):
            return state, (Publish(TrainEnd(run=policy.run, reason=reason)),)
        case Gathering() | Closing():
            return state, (Announce(),)


def _where_we_are(policy: Policy, state: State, phase: Working) -> tuple[Action, ...]:
    current = CurrentRound(
        run=policy.run,
        round=phase.number,
        incarnation=state.incarnation,
        safe=tuple(sorted(phase.safe | phase.rejected)),
        measured=tuple(sorted(phase.measured)),
        accepted=dict(state.accepted),
    )
    selected = Selected(
        run=policy.run, round=phase.number, clients=phase.selected, testers=phase.testers
    )
    return Publish(current), Publish(selected)


# questions


def missing(policy: Policy, state: State) -> tuple[int, ...]:
    """Participants that no connected board simulates."""
    return tuple(sorted(set(policy.participants) - state.registered(connected=True)))


def missed(policy: Policy, state: State, *, run: str, number: int, client: int) -> bool:
    """Whether an update belongs to a round that was closed without it."""
    return run == policy.run and number <= state.done and state.accepted.get(client, 0) < number


def wants(policy: Policy, state: State, *, run: str, number: int, client: int) -> bool:
    """Whether an update would be of use now."""
    phase = state.phase
    if run != policy.run or not isinstance(phase, Working):
        return False
    return number == phase.number and client in phase.untrained
