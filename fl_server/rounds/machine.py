"""PURE: when a round starts, whom it waits for, when it closes, when the run ends.

    Gathering  enough participants connected (and, if only they
               have the data, it is reported)                    -> Working(n + 1)
    Working    every pending client has answered or is overdue,
               and at least `min_updates` updates are safe       -> Closing
    Working    as many updates are safe as count (`extra` more
               clients were selected)                            -> Working, others spared
    Working    ... but fewer are safe, and others are there      -> Working, others selected too
    Working    (of a secured run it goes through steps: `sealing.py`)
    Closing    Aggregated                                        -> Gathering (and at once on)
    Closing    Aggregated, it was the round after the last, in
               which nobody trains and everybody tests           -> Finished
    Gathering  ... while the request is to pause or to stop         -> Gathering

A client is overdue when its board has been lost (or has reported a failure) for longer than
`grace`, or when the round is older than `deadline`. Only when a round closes is it decided who
was dropped; until then everybody may still come back. Round n trains on, and tests, the model
that n - 1 rounds have made.

While a round waits, everything that boards need is published again: soon for boards that gave
no sign of life in this round, and now and then in any case, as a board may have lost anything.
"""

from __future__ import annotations

from collections.abc import Mapping

from common.values import replace
from common.wire.messages import (
    ClientMetrics,
    Connected,
    Info,
    TrainEnd,
)
from fl_server.rounds.advance import advance
from fl_server.rounds.boards import (
    all_present,
    note_data,
    note_presence,
    note_sign_of_life,
    note_silence,
    unpublished,
)
from fl_server.rounds.buffered import note_missing
from fl_server.rounds.control import report_control
from fl_server.rounds.publishing import publish_everything
from fl_server.rounds.requests import Requested
from fl_server.rounds.sealing import note_answer, note_refusal
from fl_server.rounds.state import (
    Action,
    Aggregated,
    Answered,
    Closing,
    CountMetrics,
    Event,
    Finish,
    Finished,
    Gathering,
    Known,
    Open,
    Phase,
    Policy,
    Publish,
    Received,
    Reconnected,
    Rejected,
    Report,
    State,
    Stored,
    Strayed,
    Tick,
    Uncountable,
    Working,
)
from fl_server.rounds.steps import Sealing
from fl_server.watch import facts
from fl_server.watch.facts.making import client_failed, client_reset


def start(*, incarnation: int, now: float) -> State:
    """A run that has not begun."""
    return State(Gathering(now), incarnation, started=now)


def resume(  # noqa: PLR0913 - all that is on disk, by name
    *,
    incarnation: int,
    done: int,
    accepted: Mapping[int, int],
    opened: Open | None,
    safe: frozenset[int],
    now: float,
    reported: frozenset[int] = frozenset(),
    known: Mapping[int, Known] | None = None,
    sealing: Sealing | None = None,
) -> State:
    """A run as a stopped coordinator left it on disk: `done` rounds, maybe one open."""
    phase: Phase = Gathering(now)
    if opened is not None:
        phase = Working(opened.round_number, opened.selected, opened.testers, now, safe)
        sealing = sealing if opened.selected else None
        phase = replace(phase, sealing=sealing, started=opened.started)
    state = State(phase, incarnation, done, {}, dict(accepted), now, reported)
    return replace(state, known=known or {})


def step(policy: Policy, state: State, event: Event) -> tuple[State, tuple[Action, ...]]:
    """First note the event, then do everything that has become due."""
    noted, actions = _note(policy, state, event)
    moved, more = advance(policy, noted, event.now)
    return moved, actions + more


def _note(policy: Policy, state: State, event: Event) -> tuple[State, tuple[Action, ...]]:
    match event:
        case Received(message, now):
            return _note_message(policy, state, message, now)
        case Stored() | Rejected() | Uncountable() | Answered():
            return _note_result(state, event)
        case Strayed():
            return unpublished(state), ()
        case Aggregated(round_number):
            known = replace(state, known=event.known)
            return _note_aggregated(policy, known, round_number)
        case Reconnected(now):
            return publish_everything(policy, all_present(state, now), now)
        case Requested():
            return report_control(state, replace(state, request=event.request))
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
    if info.state == "data":
        return note_data(policy, state, info)
    if (
        info.run != policy.run
        or not isinstance(phase, Working)
        or info.round not in (phase.round_number, phase.start_of(info.client))
    ):
        return unpublished(state), ()
    known = state.owner(info.client) == info.board
    alive = note_sign_of_life(state, info.client, now) if known else state
    if info.state == "missing":
        return note_missing(policy, alive, phase, info, now)
    return _note_client(alive, phase, info, now) if known else (alive, ())


def _note_client(
    state: State, phase: Working, info: Info, now: float
) -> tuple[State, tuple[Action, ...]]:
    match info.state:
        case "withdrawn" | "refused":
            return note_refusal(state, phase, info)
        case "reset":
            return state, (Report(client_reset(info)),)
        case "failed":
            failed = {info.client: now, **phase.failed}
            failure = Report(client_failed(info))
            return replace(state, phase=replace(phase, failed=failed)), (failure,)
        case "trained":  # a new attempt alone is no success
            failed = {c: at for c, at in phase.failed.items() if c != info.client}
            return replace(state, phase=replace(phase, failed=failed)), ()
        case _:
            return state, ()


def _note_metrics(
    policy: Policy, state: State, message: ClientMetrics, now: float
) -> tuple[State, tuple[Action, ...]]:
    phase = state.phase
    if message.run != policy.run or not isinstance(phase, Working):
        return state, ()
    if message.round != phase.round_number or message.client not in phase.untested:
        return unpublished(state), ()
    measured = phase.measured | {message.client}
    counted = replace(state, phase=replace(phase, measured=measured, unpublished=True))
    return note_sign_of_life(counted, message.client, now), (CountMetrics(message),)


def _note_result(
    state: State, event: Stored | Rejected | Uncountable | Answered
) -> tuple[State, tuple[Action, ...]]:
    if isinstance(event, Stored | Rejected):
        return _note_update(state, event)
    if isinstance(event, Answered):
        return note_answer(state, event)
    return _note_uncountable(state, event)


def _note_update(state: State, event: Stored | Rejected) -> tuple[State, tuple[Action, ...]]:
    phase = state.phase
    if not isinstance(phase, Working) or not phase.wants_update(event.client):
        return unpublished(state), ()
    if event.round_number != phase.start_of(event.client):
        return unpublished(state), ()
    if isinstance(event, Stored):
        stored = {c for c in (event.client, *event.others) if phase.wants_update(c)}
        phase = replace(phase, safe=phase.safe | stored, unpublished=True)
        return replace(state, phase=phase), ()
    update = f"update of client {event.client} in round {event.round_number}"
    text = f"{update} rejected: {event.reason}"
    rejected = replace(phase, rejected=phase.rejected | {event.client}, unpublished=True)
    return replace(state, phase=rejected), (Report(facts.Rejected(text, client=event.client)),)


def _note_uncountable(state: State, event: Uncountable) -> tuple[State, tuple[Action, ...]]:
    """The round does not wait for other counts of this client, and has none of it."""
    phase = state.phase
    if not isinstance(phase, Working) or event.round_number != phase.round_number:
        return unpublished(state), ()
    if event.client not in phase.untested:
        return unpublished(state), ()
    counts = f"counts of client {event.client} in round {event.round_number}"
    report = Report(facts.Rejected(f"{counts} rejected: {event.reason}", client=event.client))
    measured = phase.measured | {event.client}
    return replace(state, phase=replace(phase, measured=measured, unpublished=True)), (report,)


def _note_aggregated(
    policy: Policy, state: State, round_number: int
) -> tuple[State, tuple[Action, ...]]:
    phase = state.phase
    if not isinstance(phase, Closing) or phase.round_number != round_number:
        return state, ()
    if round_number > policy.rounds:
        reason = "finished"
        end = Publish(TrainEnd(run=policy.run, reason=reason))
        return replace(state, phase=Finished(reason)), (Finish(reason), end)
    accepted = {**state.accepted, **dict.fromkeys(phase.used, round_number), **phase.started}
    between = replace(state, phase=Gathering(state.started), accepted=accepted)
    return report_control(state, replace(between, done=round_number))


# questions


def missing(policy: Policy, state: State) -> tuple[int, ...]:
    """Participants that no connected board simulates."""
    return tuple(sorted(set(policy.participants) - state.registered(connected=True)))


def missed(policy: Policy, state: State, *, run: str, round_number: int, client: int) -> bool:
    """Whether an update belongs to a round that was closed without it."""
    phase = state.phase
    spared = isinstance(phase, Working) and client in phase.spared
    return (
        run == policy.run
        and client in policy.participants
        and (round_number <= state.done or spared)
        and state.accepted.get(client, 0) < round_number
    )


def wants_counts(state: State, *, round_number: int, client: int) -> bool:
    """Whether a client's counts would be of use now."""
    phase = state.phase
    return (
        isinstance(phase, Working)
        and round_number == phase.round_number
        and client in phase.untested
    )


def wants(policy: Policy, state: State, *, run: str, round_number: int, client: int) -> bool:
    """Whether an update would be of use now."""
    phase = state.phase
    if run != policy.run or not isinstance(phase, Working):
        return False
    return round_number == phase.start_of(client) and phase.wants_update(client)
