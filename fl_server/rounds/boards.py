"""PURE: the boards that the coordinator knows: who is present, who is lost, who is silent.

A last will announces that a board is gone; but a will can die with the broker, so a board that
sends nothing for SILENCE_SECONDS (boards repeat their presence far more often) is lost as
well. Any message of it brings it back.
"""

from __future__ import annotations

from collections.abc import Iterable

from common.ids import brief_ids
from common.values import replace
from common.wire.messages import COORDINATOR, Connected, Info
from fl_server.rounds.state import (
    REPEAT_SECONDS,
    Action,
    Board,
    Gathering,
    KeepData,
    Policy,
    Report,
    State,
    Working,
)
from fl_server.watch import facts
from fl_server.watch.facts.making import SILENCE_SECONDS, board_back, board_lost


def note_presence(
    policy: Policy, state: State, message: Connected, now: float
) -> tuple[State, tuple[Action, ...]]:
    """A board announces itself, or its will announces that it is gone."""
    known = state.boards.get(message.board)
    if message.board == COORDINATOR or not message.settled:
        return state, ()
    same = known is not None and known.instance == message.instance
    if known is not None and same and message.session < known.session:
        return state, ()
    if not message.connected:
        if known is None or not same or known.lost_at is not None:
            return state, ()
        return _lose(state, message.board, replace(known, session=message.session), now)
    offered = set(message.clients).intersection(policy.participants)
    taken = {c for c in offered if _is_of_another(state, message.board, c)}
    mine = tuple(sorted(offered - taken))
    if known is None and len(state.boards) >= most_boards(policy):
        useless = [name for name, board in state.boards.items() if not board.clients]
        if not useless or not mine:
            return state, ()
        others = {name: board for name, board in state.boards.items() if name != useless[0]}
        state = replace(state, boards=others)
    seen_in = known.seen_in if known and same and message.session == known.session else 0
    if isinstance(state.phase, Working) and not seen_in:
        state = replace(state, phase=replace(state.phase, gap=REPEAT_SECONDS))
    earlier = known.away if known is not None else {}
    away = {client: earlier.get(client, now) for client in message.away if client in mine}
    board = Board(message.instance, message.session, mine, None, seen_in, now, away)
    board = replace(board, workers=message.workers)
    present = _with_board(_claimed(state, message.board, mine), message.board, board)
    return present, _notes_on_arrival(message, known, mine, taken)


def _lose(
    state: State, name: str, board: Board, now: float, *, silent: bool = False
) -> tuple[State, tuple[Action, ...]]:
    return _with_board(state, name, replace(board, lost_at=now)), (
        Report(board_lost(name, board.clients, silent=silent)),
    )


def _notes_on_arrival(
    message: Connected, known: Board | None, mine: tuple[int, ...], taken: set[int]
) -> tuple[Report, ...]:
    notes: tuple[Report, ...] = ()
    name = message.board
    if known is None:
        notes = (
            Report(facts.BoardConnected(f"board {name}: clients {brief_ids(mine)}", name)),
        )
    elif known.lost_at is not None:
        notes = (Report(board_back(name)),)
    changed = known is None or known.clients != mine
    if taken and changed:
        text = f"board {name} offers clients {brief_ids(tuple(taken))}, which other boards have"
        notes += (Report(facts.Foreign(f"{text}: not used", name)),)
    foreign = set(message.clients) - set(mine) - taken
    if foreign and changed:
        text = (
            f"board {name} offers clients {brief_ids(tuple(foreign))}, "
            "which are not in this experiment: not used"
        )
        notes += (Report(facts.Foreign(text, name)),)
    return notes


def most_boards(policy: Policy) -> int:
    """How many boards may register; names cost nothing, so others are not even remembered."""
    return 2 * len(policy.participants) + 64


def _is_of_another(state: State, name: str, client: int) -> bool:
    """Whether another board has a client, and is present: then it keeps it."""
    owner = state.owner(client)
    return owner not in (None, name) and state.boards[owner].lost_at is None


def _claimed(state: State, name: str, mine: tuple[int, ...]) -> State:
    """A board has these clients now; those that it had before go to a board that has them."""
    known = state.boards.get(name)
    given_up = set(known.clients if known is not None else ()).difference(mine)
    if not given_up and all(state.owner(client) == name for client in mine):
        return state
    owned = {**state.owned, **dict.fromkeys(mine, name)}
    for client in given_up:
        if owned.get(client) == name:
            del owned[client]
            have = (n for n, board in state.boards.items() if client in board.clients)
            owned.update((client, other) for other in have if other != name)
    return replace(state, owned=owned)


def note_sign_of_life(state: State, client: int, now: float) -> State:
    """A board gave a sign of the open round for one of its clients."""
    owner = state.owner(client)
    if owner is None or not isinstance(state.phase, Working):
        return state
    board = state.boards[owner]
    return _with_board(
        state,
        owner,
        replace(board, seen_in=state.phase.round_number, last_message=now, lost_at=None),
    )


def note_silence(state: State, now: float) -> tuple[State, tuple[Action, ...]]:
    """Boards that have sent nothing for too long are lost."""
    actions: tuple[Action, ...] = ()
    for name, board in state.boards.items():
        if board.lost_at is None and now - board.last_message >= SILENCE_SECONDS:
            state, more = _lose(state, name, board, now, silent=True)
            actions += more
    return state, actions


def all_present(state: State, now: float) -> State:
    """We were offline ourselves, so silence until now means nothing."""
    boards = {name: replace(board, last_message=now) for name, board in state.boards.items()}
    return replace(state, boards=boards)


def may_not_know(state: State, clients: Iterable[int], round_number: int) -> bool:
    """Whether the board of one of these clients may not know of this round."""
    boards = (state.board_of(client) for client in clients)
    return any(b is None or (b.lost_at is None and b.seen_in != round_number) for b in boards)


def unpublished(state: State) -> State:
    """Boards do not know the open round as it is: it is published again soon."""
    if isinstance(state.phase, Working):
        return replace(state, phase=replace(state.phase, unpublished=True))
    return state


def _with_board(state: State, name: str, board: Board) -> State:
    return replace(state, boards={**state.boards, name: board})


def note_data(policy: Policy, state: State, info: Info) -> tuple[State, tuple[Action, ...]]:
    """Before round 1 the last report counts; later only that of a client that is new."""
    early = state.done == 0 and isinstance(state.phase, Gathering)
    if info.run != policy.run or info.data is None or not policy.local:
        return state, ()
    if state.owner(info.client) != info.board or not (
        early or info.client not in state.reported
    ):
        return state, ()
    reported = replace(state, reported=state.reported | {info.client})
    return reported, (KeepData(info.client, info.data),)
