"""PURE: what boards have to know of a round, when it is opened and again while it waits."""

from __future__ import annotations

from common.ids import brief_ids
from common.values import replace
from common.wire.messages import CurrentRound, Selected, Step, TrainEnd
from fl_server.rounds.boards import may_not_know
from fl_server.rounds.state import (
    Action,
    Announce,
    Closing,
    Finished,
    Gathering,
    Policy,
    Publish,
    Report,
    SendSecrets,
    SendWeights,
    State,
    Working,
)
from fl_server.watch import facts

REPEAT_AT_MOST = 30.0
CONFIRM_SECONDS = 0.25
# A confirmation names all clients and goes to all boards.
CONFIRM_SECONDS_PER_BOARD = 0.001
WAITING_SECONDS = 3.0


def note_waiting(
    state: State, phase: Working, now: float
) -> tuple[State, Working, tuple[Action, ...]]:
    """Report once that a round waits only for boards that are lost."""
    if now - phase.opened < WAITING_SECONDS:
        return state, phase, ()
    pending = phase.pending
    if phase.waited == pending or any(state.is_there(client) for client in pending):
        return state, phase, ()
    phase = replace(phase, waited=pending)
    clients = brief_ids([*pending])
    text = f"round {phase.round_number} waits for clients {clients}, whose boards are lost"
    note = Report(facts.Waiting(text))
    return replace(state, phase=phase), phase, (note,)


def repeat(
    policy: Policy, state: State, phase: Working, notes: tuple[Action, ...], now: float
) -> tuple[State, tuple[Action, ...]]:
    """Publish again what boards may not know, and what is new."""
    since = now - phase.repeated
    pause = max(CONFIRM_SECONDS, len(state.boards) * CONFIRM_SECONDS_PER_BOARD)
    late = now - phase.published >= pause
    if since >= REPEAT_AT_MOST or (
        since >= phase.gap and late and may_not_know(state, phase.pending, phase.round_number)
    ):
        gap = min(2 * phase.gap, REPEAT_AT_MOST)
        again = replace(phase, published=now, repeated=now, gap=gap, unpublished=False)
        everything: tuple[Action, ...] = (
            Announce(),
            *send_secrets(phase),
            *current_round(policy, state, phase),
        )
        return replace(state, phase=again), notes + everything
    if phase.unpublished and late:
        confirmed = replace(phase, unpublished=False, published=now)
        confirmation = Publish(_confirmed(policy, state, phase))
        return replace(state, phase=confirmed), (*notes, confirmation)
    return state, notes


def publish_everything(
    policy: Policy, state: State, now: float
) -> tuple[State, tuple[Action, ...]]:
    """All that boards need to take part, as after a reconnect."""
    match state.phase:
        case Working() as phase:
            published, actions = publish_round(policy, state, phase, now)
            return published, (Announce(), *actions)
        case Finished(reason):
            return state, (Publish(TrainEnd(run=policy.run, reason=reason)),)
        case Gathering() | Closing():
            return state, (Announce(),)


def publish_round(
    policy: Policy, state: State, phase: Working, now: float
) -> tuple[State, tuple[Action, ...]]:
    """A round that is opened, for boards that know the experiment since they connected."""
    published = replace(
        phase, published=now, repeated=now, weights_published=now, unpublished=False
    )
    return replace(state, phase=published), (
        *current_round(policy, state, phase),  # known when the last part of the model comes
        SendWeights(phase.round_number),
        *send_secrets(phase),
    )


def send_secrets(phase: Working) -> tuple[Action, ...]:
    """What clients need for the open step of a secured round, as far as it is still needed."""
    wanted = tuple(sorted(phase.unanswered | phase.untrained))
    if phase.sealing is None or phase.sealing.step in ("", "keys") or not wanted:
        return ()
    return (SendSecrets(phase.round_number, wanted),)


def current_round(policy: Policy, state: State, phase: Working) -> tuple[Action, ...]:
    """What is confirmed, and who trains and tests."""
    selected = Selected(
        run=policy.run,
        round=phase.round_number,
        clients=phase.selected,
        testers=phase.testers,
        started=phase.older,
    )
    return Publish(_confirmed(policy, state, phase)), Publish(selected)


def _confirmed(policy: Policy, state: State, phase: Working) -> CurrentRound:
    safe, answered = phase.safe | phase.rejected, frozenset[int]()
    step: Step = ""
    if phase.sealing is not None:
        step, everybody = phase.sealing.step, frozenset(phase.selected)
        safe |= everybody - phase.sealing.among(everybody)
        answered = everybody - phase.unanswered
    return CurrentRound(
        run=policy.run,
        round=phase.round_number,
        incarnation=state.incarnation,
        safe=tuple(sorted(safe)),
        measured=tuple(sorted(phase.measured)),
        accepted=dict(state.accepted),
        step=step,
        answered=tuple(sorted(answered)),
    )
