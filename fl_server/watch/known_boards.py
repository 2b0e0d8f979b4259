"""PURE: the boards that a listener knows, by their last presence; no more than a limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from common.texts import shortened
from common.wire.messages import Connected
from fl_server.watch.facts.making import HOST_LETTERS, PROBLEM_LETTERS
from fl_server.watch.limits import FEW_CLIENTS, MOST_BOARDS, kept_clients


@dataclass(slots=True)
class Board:
    """A board; `whole`: all of its clients are kept."""

    presence: Connected
    seen: float
    here: bool = False
    whole: bool = True

    def simulates(self, client_id: int) -> bool:
        """Whether this is one of its clients, as far as these are known."""
        return not self.whole or client_id in self.presence.clients


@dataclass(slots=True)
class KnownBoards:
    """Boards by their names."""

    _boards: dict[str, Board] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Board]:
        return iter(self._boards.values())

    def get(self, name: str) -> Board | None:
        """A board, if it is known."""
        return self._boards.get(name)

    def store(self, message: Connected, now: float) -> Board | None:
        """The board with this presence; None if there are too many boards for one more."""
        board = self._boards.get(message.board)
        if board is None and not self._has_room(message):
            return None
        if board is None:
            board = self._boards[message.board] = Board(replace(message, clients=()), now)
        clients = message.clients
        if len(clients) > FEW_CLIENTS:
            of_others = sum(len(other.presence.clients) for other in self if other is not board)
            clients = kept_clients(clients, of_others)
        board.seen = now
        board.whole = len(clients) == len(message.clients)
        board.presence = replace(
            message,
            clients=clients,
            host=shortened(message.host, HOST_LETTERS),
            problem=shortened(message.problem, PROBLEM_LETTERS),
            history=(),
        )
        return board

    def _has_room(self, message: Connected) -> bool:
        """Whether one more board can be kept; a lost one gives way to one that is there."""
        if len(self._boards) < MOST_BOARDS:
            return True
        lost = next((name for name, board in self._boards.items() if not board.here), None)
        if lost is None or not message.connected:
            return False
        del self._boards[lost]
        return True
