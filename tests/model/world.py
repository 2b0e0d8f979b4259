"""Everything together: whoever drives the world chooses the next move."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from common.wire.messages import (
    ClientMetrics,
    Connected,
    CurrentRound,
    Info,
    Selected,
    TrainEnd,
)
from tests.model.board import Board
from tests.model.coordinator import Coordinator
from tests.model.parts import (
    AT_MOST_MOVES,
    COORDINATOR,
    OLD_RUN,
    RUN,
    Broker,
    Part,
    Party,
    Said,
    Setup,
    detail_of,
    parts_of,
    reads,
)
from tests.some_sums import counted


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run has come to."""

    finished: bool
    model: str
    aggregated: tuple[tuple[int, tuple[int, ...], str], ...]
    lines: Mapping[int, tuple[tuple[int, int], ...]]
    states: Mapping[int, tuple[int, str]]


class World:
    """All parties, the broker between them, and the time."""

    def __init__(self, setup: Setup, *, leftovers: bool = False) -> None:
        self.setup = setup
        self.now = 1000.0
        names = (COORDINATOR, *(f"board-{index}" for index in range(len(setup.boards))))
        self.broker = Broker(names)
        self.coordinator = Coordinator(self, setup)
        self.boards = [Board(self, setup, index) for index in range(len(setup.boards))]
        self.parties: tuple[Party, ...] = (self.coordinator, *self.boards)
        self.moved = dict.fromkeys(names, 0)
        if leftovers:
            for message in stale_messages(setup)[: -3 * len(setup.clients)]:
                self.broker.publish(message)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for party in self.parties:
            party.tick()

    def outcome(self) -> Outcome:
        disk = self.coordinator.disk
        states = {
            client: (round_number, state)
            for board in self.boards
            for (run, client, round_number), (state, _) in sorted(board.disk.steps.items())
            if run == RUN
        }
        return Outcome(
            disk.finished, disk.model, tuple(disk.aggregated), dict(disk.lines), states
        )

    def run_until_quiet(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Do every move there is, fairly, until there is none any more or it is to stop."""
        idle = 0
        for party in itertools.cycle(self.parties):
            if idle == len(self.parties) or stop():
                return
            moves = party.moves()
            idle = 0 if moves else idle + 1
            if moves:
                moved = self.moved[party.name]
                moves[moved % len(moves)]()
                self.moved[party.name] = moved + 1
            assert self.moved[party.name] < AT_MOST_MOVES, "the system never gets quiet"

    def settle(self, seconds: int) -> None:
        """No more faults: everybody who is not gone comes back, nothing is lost any more."""
        self.coordinator.disk.request = "run"
        for _ in range(seconds):
            self.broker.publish_wills()
            self.run_until_quiet()
            if self.coordinator.disk.finished:
                return
            self.pass_time(1.0)

    def disturb(self, choices: bytes) -> None:
        """Play what the bytes say: moves in any order, and faults of all kinds."""
        for kind, choice in zip(choices[::2], choices[1::2], strict=False):
            self._disturb(kind % 17, choice)

    def _disturb(self, kind: int, choice: int) -> None:  # noqa: C901 - one case per fault
        party, rest = self.parties[choice % len(self.parties)], choice // len(self.parties)
        match kind:
            case 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8:
                for round_number in range(1 + rest % 24):
                    moves = party.moves()
                    if moves:
                        moves[(choice + round_number) % len(moves)]()
            case 9:
                self.pass_time((0.3, 1.0, 3.1, 10.0, 40.0)[choice % 5])
            case 10:
                party.crash()
            case 11:
                self._disturb_queue(self.broker.queues[party.name], rest)
            case 12:
                self.kill_broker(forget=choice % 2 == 0)
            case 13:
                party.cut()
            case 14:
                self._say_something_old(choice)
            case 15:
                self.coordinator.disk.request = ("run", "pause", "stop")[choice % 3]
            case _:
                self.broker.publish_wills()
                for board in self.boards:
                    board.fail_a_job()

    def kill_broker(self, *, forget: bool) -> None:
        for party in self.parties:
            party.cut()
        self.broker.die(forget=forget)

    def _disturb_queue(self, queue: deque[Said], choice: int) -> None:
        """Lose, repeat or delay a message.

        Not a presence: the broker keeps those in order, and loses them only when it dies.
        """
        movable = [i for i, message in enumerate(queue) if not isinstance(message, Connected)]
        if not movable:
            return
        at = movable[choice // 3 % len(movable)]
        message = queue[at]
        if choice % 3 != 1:
            del queue[at]
        if choice % 3 != 0:
            queue.append(message)

    def _say_something_old(self, choice: int) -> None:
        stale = stale_messages(self.setup)
        message = stale[choice % len(stale)]
        for name, queue in self.broker.queues.items():
            if reads(name, message):
                queue.append(message)


def stale_messages(setup: Setup) -> tuple[Said, ...]:
    """Everything an older run may have left behind, in the broker or on the way."""
    round_number = 2
    accepted = dict.fromkeys(setup.clients, 1)
    first: tuple[Said, ...] = (
        TrainEnd(run=OLD_RUN, reason="finished"),
        detail_of(OLD_RUN),
        CurrentRound(
            run=OLD_RUN,
            round=round_number,
            incarnation=9,
            safe=(),
            measured=(),
            accepted=accepted,
        ),
        Selected(run=OLD_RUN, round=round_number, clients=setup.clients, testers=setup.clients),
        *parts_of(OLD_RUN, round_number, None, "old model"),
    )
    count = {"G": counted(1, 2)}
    later: list[Said] = []
    for client in setup.clients:
        board = next(f"board-{i}" for i, ids in enumerate(setup.boards) if client in ids)
        place = {"run": OLD_RUN, "round": round_number, "client": client}
        later += [
            msgspec.convert({**place, "board": board, "state": "missing"}, Info),
            msgspec.convert({**place, "own": count}, ClientMetrics),
            Part(OLD_RUN, round_number, client, 0, "old update"),
        ]
    return (*first, *later)
