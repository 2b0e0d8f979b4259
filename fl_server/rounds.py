"""PURE: when a round starts, whom it waits for, when it closes, when the run ends.

    Gathering  enough participants connected                     -> Working(1)
    Working    every pending client has answered or is overdue,
               and at least `min_updates` updates are safe       -> Closing
    Closing    Aggregated                                        -> Working(n + 1)
    Closing    Aggregated, it was the round after the last, in
               which nobody trains and everybody tests           -> Finished

A client is overdue when its board has been lost (or has reported a failure) for longer than
`grace`, or when the round is older than `deadline`. Only when a round closes is it decided who
was dropped; until then everybody may still come back. Round n trains on, and tests, the model
that n - 1 rounds have made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from common.ids import show_ids
from common.messages import (
    COORDINATOR,
    ClientMetrics,
    Connected,
    CurrentRound,
    Info,
    Selected,
    TrainEnd,
)
from fl_server.round_state import (
    REPEAT_SECONDS,
    Action,
    Aggregated,
    Announce,
    Board,
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
from fl_server.selection import choose

REPEAT_AT_MOST = 30.0
CONFIRM_SECONDS = 1.0


def start(*, incarnation: int, now: float) -> State:
    """A run that has not begun."""
    return State(Gathering(now), incarnation)


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
    phase: Phase = Gathering(now, restarted=done > 0)
    if opened is not None:
        phase = Working(opened.number, opened.selected, opened.testers, now, safe)
    return State(phase, incarnation, done, {}, dict(accepted))


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
            return _note_aggregated(policy, state, number, now)
        case Reconnected(now):
            return _say_everything(policy, state, now)
        case Tick():
            return state, ()


def _note_message(
    policy: Policy, state: State, message: Connected | Info | ClientMetrics, now: float
) -> tuple[State, tuple[Action, ...]]:
    match message:
        case Connected():
            return _note_connected(policy, state, message, now)
        case Info():
            return _note_info(policy, state, message, now)
        case ClientMetrics():
            return _note_metrics(policy, state, message)


def _note_connected(
    policy: Policy, state: State, message: Connected, now: float
) -> tuple[State, tuple[Action, ...]]:
    known = state.boards.get(message.board)
    if message.board == COORDINATOR or not message.settled:
        return state, ()
    same = known is not None and known.instance == message.instance
    if known is not None and same and message.session < known.session:
        return state, ()
    if not message.connected:
        if known is None or not same or known.lost_at is not None:
            return state, ()
        lost = replace(known, lost_at=now)
        text = f"board {message.board} is lost (clients {show_ids(known.clients)})"
        return _with_board(state, message.board, lost), (Note("lost", text, message.board),)
    mine = tuple(sorted(set(message.clients) & set(policy.participants)))
    board = Board(
        message.instance, message.session, mine, None, known.heard if known and same else 0
    )
    notes = _greet(message, known, mine)
    return _with_board(state, message.board, board), notes


def _greet(message: Connected, known: Board | None, mine: tuple[int, ...]) -> tuple[Note, ...]:
    notes: tuple[Note, ...] = ()
    name = message.board
    if known is None:
        notes = (Note("connected", f"board {name}: clients {show_ids(mine)}", name),)
    elif known.lost_at is not None:
        notes = (Note("back", f"board {name} is back", name),)
    foreign = set(message.clients) - set(mine)
    if foreign and (known is None or known.clients != mine):
        text = (
            f"board {name} offers clients {show_ids(tuple(foreign))}, "
            "which are not in this experiment: not used"
        )
        notes += (Note("foreign", text, name),)
    return notes


def _note_info(
    policy: Policy, state: State, info: Info, now: float
) -> tuple[State, tuple[Action, ...]]:
    phase = state.phase
    if info.run != policy.run or not isinstance(phase, Working) or info.round != phase.number:
        return _unsaid(state), ()
    if _owner(state, info.client) != info.board:
        return state, ()
    heard = _with_board(
        state, info.board, replace(state.boards[info.board], heard=phase.number)
    )
    if info.state == "missing":
        if now - phase.weights_said < REPEAT_SECONDS:
            return heard, ()
        return replace(heard, phase=replace(phase, weights_said=now)), (
            SendWeights(phase.number),
        )
    if info.state == "failed":
        failed = {**phase.failed, info.client: phase.failed.get(info.client, now)}
        text = f"client {info.client} on board {info.board} failed: {info.problem}"
        note = Note("failed", text, info.board, info.client)
        return replace(heard, phase=replace(phase, failed=failed)), (note,)
    if info.client in phase.failed:
        failed = {c: at for c, at in phase.failed.items() if c != info.client}
        return replace(heard, phase=replace(phase, failed=failed)), ()
    return heard, ()


def _note_metrics(
    policy: Policy, state: State, message: ClientMetrics
) -> tuple[State, tuple[Action, ...]]:
    phase = state.phase
    if message.run != policy.run or not isinstance(phase, Working):
        return state, ()
    if message.round != phase.number or message.client not in phase.untested:
        return _unsaid(state), ()
    measured = phase.measured | {message.client}
    counted = replace(state, phase=replace(phase, measured=measured, unsaid=True))
    return _hear(counted, message), (Tell(message),)


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
    policy: Policy, state: State, number: int, now: float
) -> tuple[State, tuple[Action, ...]]:
    phase = state.phase
    if not isinstance(phase, Closing) or phase.number != number:
        return state, ()
    if number > policy.rounds:
        reason = "finished"
        end = Publish(TrainEnd(run=policy.run, reason=reason))
        return replace(state, phase=Finished(reason)), (end, Finish(reason))
    accepted = {**state.accepted, **dict.fromkeys(phase.used, number)}
    return _open(policy, replace(state, accepted=accepted, done=number), number + 1, now)


def _hear(state: State, message: ClientMetrics) -> State:
    owner = _owner(state, message.client)
    if owner is None or not isinstance(state.phase, Working):
        return state
    return _with_board(state, owner, replace(state.boards[owner], heard=state.phase.number))


def _unsaid(state: State) -> State:
    if isinstance(state.phase, Working):
        return replace(state, phase=replace(state.phase, unsaid=True))
    return state


def _with_board(state: State, name: str, board: Board) -> State:
    return replace(state, boards={**state.boards, name: board})


def _owner(state: State, client: int) -> str | None:
    """The board that simulates a client; one that is there before one that is lost."""
    owners = [name for name, board in state.boards.items() if client in board.clients]
    here = [name for name in owners if state.boards[name].lost_at is None]
    return next(iter(here or owners), None)


# what has become due


def _advance(policy: Policy, state: State, now: float) -> tuple[State, tuple[Action, ...]]:
    match state.phase:
        case Gathering():
            return _try_to_begin(policy, state, now)
        case Working() as phase:
            if _may_close(policy, state, phase, now):
                return _close(policy, state, phase)
            return _repeat(policy, state, phase, now)
        case Closing() | Finished():
            return state, ()


def _try_to_begin(policy: Policy, state: State, now: float) -> tuple[State, tuple[Action, ...]]:
    assert isinstance(state.phase, Gathering)
    here = len(registered(state, connected=True))
    tired = state.phase.restarted and now - state.phase.since >= policy.grace and here > 0
    if here < policy.start_with and not tired:
        return state, ()
    return _open(policy, state, state.done + 1, now)


def _open(
    policy: Policy, state: State, number: int, now: float
) -> tuple[State, tuple[Action, ...]]:
    everybody = registered(state)
    patient = (
        frozenset(c for c in everybody if not _given_up(policy, state, c, now)) or everybody
    )
    selected: tuple[int, ...] = ()
    if number <= policy.rounds:
        selected = choose(
            patient,
            population=len(policy.participants),
            rate=policy.rate,
            seed=policy.seed,
            number=number,
        )
    due = (number - 1) % policy.evaluate_every == 0 or number > policy.rounds
    testers = tuple(sorted(patient)) if due else ()
    opened = replace(state, phase=Working(number, selected, testers, now))
    said, actions = _say_everything(policy, opened, now)
    return said, (Open(number, selected, testers), *actions)


def _may_close(policy: Policy, state: State, phase: Working, now: float) -> bool:
    if any(not _overdue(policy, state, phase, client, now) for client in phase.pending):
        return False
    enough = min(policy.min_updates, len(phase.selected))
    return len(phase.safe) >= enough or not phase.untrained


def _close(policy: Policy, state: State, phase: Working) -> tuple[State, tuple[Action, ...]]:
    used = tuple(sorted(phase.safe))
    dropped = tuple(sorted(phase.pending))
    notes: tuple[Action, ...] = ()
    if dropped:
        text = f"round {phase.number} goes on without clients {show_ids(dropped)}"
        notes = (Note("dropped", text),)
    close = Close(phase.number, used, dropped, training=phase.number <= policy.rounds)
    return replace(state, phase=Closing(phase.number, used)), (*notes, close)


def _repeat(
    policy: Policy, state: State, phase: Working, now: float
) -> tuple[State, tuple[Action, ...]]:
    if phase.unsaid and now - phase.said >= CONFIRM_SECONDS:
        said = replace(phase, unsaid=False, said=now)
        return replace(state, phase=said), _where_we_are(policy, state, phase)
    silent = any(
        board.lost_at is None
        and board.heard != phase.number
        and not phase.pending.isdisjoint(board.clients)
        for board in state.boards.values()
    )
    if not silent or now - phase.said < phase.gap:
        return state, ()
    again = replace(phase, said=now, gap=min(2 * phase.gap, REPEAT_AT_MOST), unsaid=False)
    return replace(state, phase=again), (Announce(), *_where_we_are(policy, state, phase))


def _say_everything(
    policy: Policy, state: State, now: float
) -> tuple[State, tuple[Action, ...]]:
    match state.phase:
        case Working() as phase:
            said = replace(phase, said=now, weights_said=now, unsaid=False)
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
        evaluate=bool(phase.testers),
        safe=tuple(sorted(phase.safe | phase.rejected)),
        measured=tuple(sorted(phase.measured)),
        accepted=dict(state.accepted),
    )
    selected = Selected(
        run=policy.run, round=phase.number, clients=phase.selected, testers=phase.testers
    )
    return Publish(current), Publish(selected)


# questions


def registered(state: State, *, connected: bool = False) -> frozenset[int]:
    """Participants that some board simulates (`connected`: a board that is there now)."""
    boards = (b for b in state.boards.values() if b.lost_at is None or not connected)
    return frozenset(client for board in boards for client in board.clients)


def missing(policy: Policy, state: State) -> tuple[int, ...]:
    """Participants that no connected board simulates."""
    return tuple(sorted(set(policy.participants) - registered(state, connected=True)))


def wants(policy: Policy, state: State, *, run: str, number: int, client: int) -> bool:
    """Whether an update would be of use now."""
    phase = state.phase
    if run != policy.run or not isinstance(phase, Working):
        return False
    return number == phase.number and client in phase.untrained


def _given_up(policy: Policy, state: State, client: int, now: float) -> bool:
    owner = _owner(state, client)
    lost_at = state.boards[owner].lost_at if owner is not None else None
    return lost_at is not None and now - lost_at >= policy.grace


def _overdue(policy: Policy, state: State, phase: Working, client: int, now: float) -> bool:
    if now - phase.opened >= policy.deadline or _given_up(policy, state, client, now):
        return True
    if client in phase.failed:
        return now - phase.failed[client] >= policy.grace
    return _owner(state, client) is None and now - phase.opened >= policy.grace
