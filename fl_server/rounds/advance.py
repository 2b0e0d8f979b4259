"""PURE: what becomes due in a run: opening a round, publishing it again, closing it."""

from __future__ import annotations

from common.ids import brief_ids
from common.values import replace
from common.wire.messages import CurrentRound
from fl_server.rounds.buffered import advance_buffer, open_buffer
from fl_server.rounds.publishing import (
    REPEAT_AT_MOST,
    current_round,
    note_waiting,
    publish_round,
    repeat,
)
from fl_server.rounds.rules import pick
from fl_server.rounds.sealing import advance_step
from fl_server.rounds.selection import enough, goal, is_overdue, not_given_up, share_of
from fl_server.rounds.state import (
    REPEAT_SECONDS,
    Action,
    Announce,
    Close,
    Closing,
    Finished,
    Gathering,
    Open,
    Policy,
    Publish,
    Report,
    State,
    Working,
)
from fl_server.rounds.steps import Sealing
from fl_server.watch import facts
from fl_server.watch.facts.making import clients_dropped, clients_spared, clients_uncounted


def advance(policy: Policy, state: State, now: float) -> tuple[State, tuple[Action, ...]]:
    """Do everything that is due in this phase."""
    match state.phase:
        case Gathering() as phase if state.request != "run":
            return _hold(policy, state, phase, now)
        case Gathering() as phase:
            return _try_to_begin(policy, state, phase, now)
        case Working() as phase if policy.buffer and phase.round_number <= policy.rounds:
            return advance_buffer(policy, state, phase, now)
        case Working() as phase:
            return _try_to_close(policy, state, phase, now)
        case Closing() | Finished():
            return state, ()


def _hold(
    policy: Policy, state: State, phase: Gathering, now: float
) -> tuple[State, tuple[Action, ...]]:
    """No round is opened. Boards would send again what the last one has not confirmed."""
    if state.done == 0 or now - phase.published < REPEAT_AT_MOST:
        return state, ()
    enough = CurrentRound(
        run=policy.run,
        round=state.done,
        incarnation=state.incarnation,
        safe=policy.participants,
        measured=policy.participants,
        accepted=dict(state.accepted),
    )
    return replace(state, phase=replace(phase, published=now)), (Publish(enough),)


def _try_to_begin(
    policy: Policy, state: State, phase: Gathering, now: float
) -> tuple[State, tuple[Action, ...]]:
    first = state.done == 0
    waited_enough = not first and now - phase.since >= policy.grace
    least = enough(policy) if waited_enough else max(enough(policy), policy.start_with)
    if len(state.owned) < least:
        return state, ()
    present = state.registered(connected=first)
    if first and policy.local:
        present &= state.reported
    if len(present) >= least:
        return _open(policy, state, state.done + 1, now)
    if not policy.local or now - max(phase.since, phase.published) < REPEAT_AT_MOST:
        return state, ()
    # who has not reported may have another experiment, if the broker has lost this one
    return replace(state, phase=replace(phase, published=now)), (Announce(),)


def _open(
    policy: Policy, state: State, round_number: int, now: float
) -> tuple[State, tuple[Action, ...]]:
    here = not_given_up(policy, state, now)
    candidates = here if len(here) >= enough(policy) else state.registered()
    due = (round_number - 1) % policy.evaluate_every == 0 or round_number > policy.rounds
    if policy.buffer and round_number <= policy.rounds:
        return open_buffer(policy, state, round_number, now, due=due)
    selected: tuple[int, ...] = ()
    if round_number <= policy.rounds:
        wanted = share_of(len(policy.participants), policy.rate) + policy.extra
        selected = pick(policy, state, candidates, wanted, round_number=round_number)
    testers = tuple(sorted(candidates)) if due else ()
    sealing = Sealing() if policy.threshold and selected else None
    working = Working(round_number, selected, testers, now, sealing=sealing)
    published, actions = publish_round(policy, replace(state, busy={}), working, now)
    return published, (Open(round_number, selected, testers), *actions)


def _try_to_close(
    policy: Policy, state: State, phase: Working, now: float
) -> tuple[State, tuple[Action, ...]]:
    if (moved := advance_step(policy, state, phase, now)) is not None:
        return _go_on(policy, state, *moved, now)
    wanted = goal(policy)
    if wanted is not None and len(phase.safe) >= wanted and phase.untrained:
        return _spare(policy, state, phase, now)
    waits = phase.sealing is not None and phase.unanswered | phase.untrained
    if waits or not all(is_overdue(policy, state, phase, c, now) for c in phase.pending):
        return repeat(policy, *note_waiting(state, phase, now), now)
    if phase.sealing is not None:
        return _close(policy, state, phase)
    lacking = min(enough(policy), len(phase.selected)) - len(phase.safe)
    if lacking <= 0 or not phase.untrained:
        return _close(policy, state, phase)
    others = not_given_up(policy, state, now).difference(phase.selected)
    if not others:
        return repeat(policy, *note_waiting(state, phase, now), now)
    called = pick(policy, state, others, lacking, round_number=phase.round_number)
    selected = tuple(sorted({*phase.selected, *called}))
    text = (
        f"round {phase.round_number} lacks updates: clients {brief_ids(called)} train instead"
    )
    more = replace(phase, selected=selected, opened=now)
    published, actions = publish_round(policy, state, more, now)
    opened = Open(phase.round_number, selected, phase.testers)
    return published, (Report(facts.Called(text)), opened, *actions)


def _go_on(
    policy: Policy, state: State, phase: Working, actions: tuple[Action, ...], now: float
) -> tuple[State, tuple[Action, ...]]:
    """A secured round is in its next step, or has come to an end without a sum."""
    phase = replace(phase, published=now, repeated=now, gap=REPEAT_SECONDS, unpublished=False)
    moved = replace(state, phase=phase)
    published = current_round(policy, moved, phase)
    if phase.sealing is not None and phase.sealing.step:
        return moved, (*actions, *published)
    closed, more = _try_to_close(policy, moved, phase, now)
    return closed, (*actions, *published, *more)


def _spare(
    policy: Policy, state: State, phase: Working, now: float
) -> tuple[State, tuple[Action, ...]]:
    """Enough updates are safe: the other clients need not go on."""
    spared = phase.untrained
    fewer = tuple(sorted(set(phase.selected) - spared))
    phase = replace(phase, selected=fewer, spared=phase.spared | spared, published=now)
    state = replace(state, phase=phase)
    note = Report(clients_spared(phase.round_number, tuple(sorted(spared))))
    moved, actions = _try_to_close(policy, state, phase, now)
    if isinstance(moved.phase, Working):  # tests are still to come
        actions += current_round(policy, state, phase)
    return moved, (note, *actions)


def _close(policy: Policy, state: State, phase: Working) -> tuple[State, tuple[Action, ...]]:
    used = tuple(sorted(phase.safe))
    late = tuple(sorted(phase.untrained))
    dropped = tuple(sorted(phase.untrained | phase.spared))
    if phase.sealing is not None:
        used = phase.sealing.clients
        late = dropped = tuple(sorted({*phase.selected} - {*used} - phase.rejected))
    notes: tuple[Action, ...] = ()
    if late:
        notes = (Report(clients_dropped(phase.round_number, late)),)
    if phase.untested:
        notes += (Report(clients_uncounted(phase.round_number, tuple(phase.untested))),)
    close = Close(
        phase.round_number, used, dropped, training=phase.round_number <= policy.rounds
    )
    return replace(state, phase=Closing(phase.round_number, used)), (*notes, close)
