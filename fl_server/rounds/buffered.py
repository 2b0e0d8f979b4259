"""PURE: buffered asynchronous rounds (FedBuff; Nguyen et al., 2022).

A round is a buffer. Clients train all the time, each from the model that was the newest when it
was chosen (`Working.started`); as soon as `buffer` updates are safe, they make the next model,
and whoever is still training goes on. `rate` of the participants train at any time.

    Gathering  a round opens: who trains goes on, unless its model
               is more than `max_staleness` rounds old             -> Working
    Working    fewer train than shall, and a board has room        -> Working, one more trains
    Working    a client is overdue (see `machine.py`)              -> Working without it
    Working    a client has lost the model that it shall train     -> Working, it trains the
                                                                      newest
    Working    `buffer` updates are safe, testers have answered    -> Closing
    Working    ... fewer, but nobody trains, and nobody else can   -> Closing

A client is in a buffer at most once, and trains the same model at most once. When a round opens
in which models are tested, those test who do not train, if their boards have room; their boards
train others when that is done. Such a round waits for tests, and for no training.
"""

from __future__ import annotations

from collections.abc import Iterable

from common.values import replace
from common.wire.messages import Info
from fl_server.rounds.publishing import (
    current_round,
    note_waiting,
    publish_round,
    repeat,
    send_secrets,
)
from fl_server.rounds.rules import pick
from fl_server.rounds.selection import enough, is_overdue, not_given_up, share_of
from fl_server.rounds.state import (
    REPEAT_SECONDS,
    Action,
    Close,
    Closing,
    Open,
    Policy,
    Report,
    SendWeights,
    State,
    Working,
)
from fl_server.watch.facts.making import (
    client_starts_again,
    clients_dropped,
    clients_outdated,
    clients_uncounted,
)


def open_buffer(
    policy: Policy, state: State, round_number: int, now: float, *, due: bool
) -> tuple[State, tuple[Action, ...]]:
    """A new round; who trains an older model goes on. `due`: models are to be tested."""
    oldest = round_number - policy.max_staleness
    started = {client: at for client, at in state.busy.items() if at >= oldest}
    outdated = tuple(sorted(set(state.busy) - set(started)))
    testers = _idle(state, started) if due else ()
    phase = Working(round_number, tuple(sorted(started)), testers, now, started=started)
    phase = replace(phase, spared=frozenset(outdated))
    filled = _filled(policy, state, phase)
    opened = replace(state, phase=filled, busy={})
    published, actions = publish_round(policy, opened, filled, now)
    notes: tuple[Action, ...] = ()
    if outdated:
        notes = (Report(clients_outdated(round_number, outdated)),)
    return published, (*notes, *_journaled(opened), *actions)


def advance_buffer(
    policy: Policy, state: State, phase: Working, now: float
) -> tuple[State, tuple[Action, ...]]:
    """Let clients go that are overdue, close the round or let others train."""
    overdue = {c for c in phase.untrained if is_overdue(policy, state, phase, c, now)}
    notes: tuple[Action, ...] = ()
    changed = phase
    if overdue:
        changed = _without(phase, overdue)
        notes = (Report(clients_dropped(phase.round_number, tuple(sorted(overdue)))),)
    if not _tests_are_in(policy, state, changed, now):
        pass
    elif len(changed.safe) >= policy.buffer:
        return _close(state, changed, notes)
    changed = _filled(policy, state, changed)
    if _is_stuck(policy, state, changed, now):
        return _close(state, changed, notes)
    if changed == phase:
        return repeat(policy, *note_waiting(state, phase, now), now)
    changed = replace(changed, unpublished=False, published=now)
    moved = replace(state, phase=changed)
    return moved, (*notes, *_journaled(moved), *current_round(policy, moved, changed))


def note_missing(
    policy: Policy, state: State, phase: Working, info: Info, now: float
) -> tuple[State, tuple[Action, ...]]:
    """A board has not the model that a client needs; nobody has an older one any more."""
    if info.round < phase.round_number:
        return _start_again(policy, state, phase, info.client, now)
    if now - phase.weights_published < REPEAT_SECONDS:
        return state, ()
    asked = replace(phase, weights_published=now)
    weights = SendWeights(phase.round_number)
    return replace(state, phase=asked), (weights, *send_secrets(phase))


def _start_again(
    policy: Policy, state: State, phase: Working, client: int, now: float
) -> tuple[State, tuple[Action, ...]]:
    """A client has lost the model that it was to train: it trains the newest."""
    if client not in phase.untrained or phase.start_of(client) == phase.round_number:
        return state, ()
    note = Report(client_starts_again(client, phase.start_of(client)))
    started = {**phase.started, client: phase.round_number}
    phase = replace(phase, started=started, unpublished=False, published=now)
    moved = replace(state, phase=phase)
    return moved, (note, *_journaled(moved), *current_round(policy, moved, phase))


def _idle(state: State, started: dict[int, int]) -> tuple[int, ...]:
    """Clients that do not train, on boards that have room."""
    names, room = state.owned, _room(state, started)
    there = state.registered(connected=True).difference(started)
    return tuple(sorted(client for client in there if room[names[client]] > 0))


def _room(state: State, training: Iterable[int]) -> dict[str, int]:
    """How many more clients each board can train."""
    names = state.owned
    room = {name: board.workers or len(board.clients) for name, board in state.boards.items()}
    for client in training:
        if client in names:
            room[names[client]] -= 1
    return room


def _filled(policy: Policy, state: State, phase: Working) -> Working:
    """With as many clients training as shall, if boards have room for them."""
    wanted = share_of(len(policy.participants), policy.rate)
    names = state.owned
    there = state.registered(connected=True)
    free = there.difference(phase.selected, phase.failed)
    room = _room(state, phase.untrained)
    for client in phase.untested:
        if client in names:  # it tests before it trains
            room[names[client]] = 0
    training = len(phase.untrained)
    started, selected = dict(phase.started), set(phase.selected)
    while training < wanted:
        fit = [client for client in free if room[names[client]] > 0]
        if not fit:
            break
        number, turn = phase.round_number, len(selected)
        (chosen,) = pick(policy, state, fit, 1, round_number=number, turn=turn)
        free -= {chosen}
        room[names[chosen]] -= 1
        started[chosen] = phase.round_number
        selected.add(chosen)
        training += 1
    if len(selected) == len(phase.selected):
        return phase
    return replace(phase, selected=tuple(sorted(selected)), started=started)


def _without(phase: Working, clients: set[int]) -> Working:
    return replace(
        phase,
        selected=tuple(c for c in phase.selected if c not in clients),
        started={c: at for c, at in phase.started.items() if c not in clients},
        spared=phase.spared | clients,
    )


def _tests_are_in(policy: Policy, state: State, phase: Working, now: float) -> bool:
    return all(is_overdue(policy, state, phase, client, now) for client in phase.untested)


def _is_stuck(policy: Policy, state: State, phase: Working, now: float) -> bool:
    """Whether nobody trains, and nobody else can, now or when a board is back."""
    if phase.untrained or not _tests_are_in(policy, state, phase, now):
        return False
    if not_given_up(policy, state, now).difference(phase.selected, phase.failed):
        return False
    return len(phase.safe) >= enough(policy) or bool(phase.rejected)


def _close(
    state: State, phase: Working, notes: tuple[Action, ...]
) -> tuple[State, tuple[Action, ...]]:
    number, used = phase.round_number, tuple(sorted(phase.safe))
    started = {client: phase.start_of(client) for client in used}
    busy = {client: phase.start_of(client) for client in phase.untrained}
    dropped = tuple(sorted(phase.spared - phase.safe))
    if phase.untested:
        notes += (Report(clients_uncounted(number, tuple(sorted(phase.untested)))),)
    close = Close(number, used, dropped, training=True, started=started)
    closing = replace(state, phase=Closing(number, used, started), busy=busy)
    return closing, (*notes, close)


def _journaled(state: State) -> tuple[Action, ...]:
    assert isinstance(state.phase, Working)
    phase = state.phase
    return (Open(phase.round_number, phase.selected, phase.testers, dict(phase.started)),)
