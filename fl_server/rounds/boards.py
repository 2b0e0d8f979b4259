"""PURE: the roll of the boards: who is there, who is lost, who has not been heard of.

A last will says that a board is gone; but a will can die with the broker, so a board that says
nothing for SILENCE_SECONDS (boards repeat their presence far more often) is lost as well. Any
word of it brings it back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from common.ids import show_ids
from common.wire.messages import COORDINATOR, Connected
from fl_server.rounds.state import REPEAT_SECONDS, Action, Board, Note, Policy, State, Working

SILENCE_SECONDS = 60.0


def note_presence(
    policy: Policy, state: State, message: Connected, now: float
) -> tuple[State, tuple[Action, ...]]:
    """A board says that it is there, or its will says that it is not."""
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
    mine = tuple(sorted(set(message.clients) & set(policy.participants)))
    heard = known.heard if known and same and message.session == known.session else 0
    if isinstance(state.phase, Working) and not heard:
        state = replace(state, phase=replace(state.phase, gap=REPEAT_SECONDS))
    board = Board(message.instance, message.session, mine, None, heard, now)
    return _with_board(state, message.board, board), _greet(message, known, mine)


def _lose(
    state: State, name: str, board: Board, now: float
) -> tuple[State, tuple[Action, ...]]:
    text = f"board {name} is lost (clients {show_ids(board.clients)})"
    return _with_board(state, name, replace(board, lost_at=now)), (Note("lost", text, name),)


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


def note_word(state: State, client: int, now: float) -> State:
    """A board gave a sign of the open round for one of its clients."""
    owner = state.owner(client)
    if owner is None or not isinstance(state.phase, Working):
        return state
    board = state.boards[owner]
    return _with_board(
        state, owner, replace(board, heard=state.phase.number, spoke=now, lost_at=None)
    )


def note_silence(state: State, now: float) -> tuple[State, tuple[Action, ...]]:
    """Boards that have said nothing for too long are lost."""
    actions: tuple[Action, ...] = ()
    for name, board in state.boards.items():
        if board.lost_at is None and now - board.spoke >= SILENCE_SECONDS:
            state, more = _lose(state, name, board, now)
            actions += more
    return state, actions


def all_present(state: State, now: float) -> State:
    """We were away ourselves: nobody's silence until now means anything."""
    boards = {name: replace(board, spoke=now) for name, board in state.boards.items()}
    return replace(state, boards=boards)


def needs_telling(state: State, clients: Iterable[int], number: int) -> bool:
    """Whether the board of one of these clients may not know of this round."""
    owners = state.owners()
    boards = (owners.get(client) for client in clients)
    return any(b is None or (b.lost_at is None and b.heard != number) for b in boards)


def _with_board(state: State, name: str, board: Board) -> State:
    return replace(state, boards={**state.boards, name: board})
