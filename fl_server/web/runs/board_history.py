"""PURE: what each board did and measured lately; bounded, whatever boards send.

When the samples of a board are too many, every second one is dropped and new ones are taken
half as often: so they always reach back to the beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from common.texts import printable, shortened
from common.wire.messages import Telemetry
from fl_server.watch import facts
from fl_server.watch.board_view import BoardView
from fl_server.watch.facts import Fact
from fl_server.watch.limits import MOST_CLIENTS
from fl_server.watch.notes import Noted, sentence

SAMPLES = 240  # of a board
ALL_SAMPLES = 60_000
SAMPLE_SECONDS = 2.0  # between two of them, at first
ROUNDS = 60
SIZES = 2_000
NOTES = 12
LETTERS = 300

Sample: TypeAlias = tuple[
    float, float | None, bool | None, int | None, float | None, float | None
]


@dataclass(slots=True)
class BoardRound:
    """A round of a board: until its last training ended, and how long it trained."""

    round: int
    seconds: float = 0.0
    busy: float = 0.0
    clients: int = 0


@dataclass(slots=True)
class OneBoard:
    """What is kept of a board; a sample is (time, °C, throttled, memory, load, W)."""

    samples: list[Sample] = field(default_factory=list)
    rounds: list[BoardRound] = field(default_factory=list)
    notes: list[tuple[float, str]] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)  # client -> training samples
    every: float = SAMPLE_SECONDS

    def measure(self, found: Telemetry, now: float, most: int) -> None:
        """Take a measurement, unless the last one was just before."""
        if self.samples and 0 <= now - self.samples[-1][0] < self.every:
            return
        values = (found.celsius, found.throttled, found.memory_used, found.load, found.watts)
        self.samples.append((now, *values))
        if len(self.samples) > most:
            self.samples, self.every = self.samples[::2], 2 * self.every

    def train(self, client: int, size: int, done: BoardRound) -> None:
        """A client of this board has trained."""
        if size and (client in self.sizes or len(self.sizes) < SIZES):
            self.sizes[client] = size
        if not self.rounds or self.rounds[-1].round != done.round:
            self.rounds = [*self.rounds, BoardRound(done.round)][-ROUNDS:]
        last = self.rounds[-1]
        last.seconds = max(last.seconds, done.seconds)
        last.busy = round(last.busy + done.busy, 3)
        last.clients += 1


@dataclass(slots=True)
class BoardHistory:
    """Of all boards that are shown; of others nothing is kept."""

    boards: dict[str, OneBoard] = field(default_factory=dict)
    _opened: float = 0.0
    _round: int = 0
    _trained: set[tuple[int, int]] = field(default_factory=set)

    def observe(self, fact: Fact, shown: Mapping[str, BoardView]) -> None:
        """Take a fact."""
        match fact:
            case facts.Described():
                self._start_again()
            case facts.RoundOpened(round=number) if number != self._round:
                self._opened, self._round, self._trained = fact.time, number, set()
            case facts.Presence(board=name, telemetry=telemetry):
                self._measure(name, telemetry, fact.time, shown)
            case facts.Info(info=info):
                self._measure(info.board, info.telemetry, fact.time, shown)
                if info.state == "trained":
                    self._take(_trained(fact), shown)
            case facts.Trained():
                self._take(fact, shown)
            case _:
                pass
        name = getattr(fact, "board", "")
        if isinstance(fact, Noted) and name in shown:
            text = shortened(printable(sentence(fact)), LETTERS)
            board = self._of(name)
            board.notes = [*board.notes, (fact.time, text)][-NOTES:]
        if len(self.boards) > len(shown):
            self.boards = {name: one for name, one in self.boards.items() if name in shown}

    def _start_again(self) -> None:
        """Another run: what was measured stays."""
        self._opened, self._round, self._trained = 0.0, 0, set()
        for board in self.boards.values():
            board.rounds, board.sizes = [], {}

    def _of(self, name: str) -> OneBoard:
        return self.boards.setdefault(name, OneBoard())

    def _measure(
        self, name: str, found: Telemetry | None, now: float, shown: Mapping[str, BoardView]
    ) -> None:
        if found is not None and name in shown:
            self._of(name).measure(found, now, min(SAMPLES, ALL_SAMPLES // len(shown)))

    def _take(self, done: facts.Trained, shown: Mapping[str, BoardView]) -> None:
        """A training that has ended; it is reported in two ways, and counts once."""
        known = (done.round, done.client) in self._trained or len(self._trained) > MOST_CLIENTS
        if known or done.round != self._round or done.board not in shown:
            return
        if not shown[done.board].simulates(done.client):
            return
        self._trained.add((done.round, done.client))
        seconds = round(max(0.0, done.time - self._opened), 2)
        found = BoardRound(done.round, seconds, done.seconds)
        self._of(done.board).train(done.client, done.samples, found)


def _trained(fact: facts.Info) -> facts.Trained:
    info = fact.info
    return facts.Trained(
        board=info.board,
        client=info.client,
        round=info.round,
        seconds=info.seconds or 0.0,
        samples=info.samples,
        time=fact.time,
    )
