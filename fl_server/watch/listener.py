"""PURE: the messages on the topics, as the facts that a view is made of; time is an argument.

The coordinator reports these facts to its own display. A listener finds them again in the
messages: retained ones arrive in any order, so a fact is reported once everything that it needs
is known, and only once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from common.errors import ProtocolError
from common.wire.json_codec import INVALID
from common.wire.messages import (
    COORDINATOR,
    ClientMetrics,
    Connected,
    CurrentRound,
    Info,
    Message,
    MetricName,
    Natural,
    RoundLine,
    Selected,
    TrainDetail,
    TrainEnd,
)
from fl_server.watch import facts
from fl_server.watch.facts import Fact, making
from fl_server.watch.facts.lines import ACCURACY, MainMetric, main_metric
from fl_server.watch.facts.making import SILENCE_SECONDS
from fl_server.watch.known_boards import Board, KnownBoards
from fl_server.watch.limits import MOST_ROUNDS, MOST_RUNS

OfRun = TypeVar("OfRun", CurrentRound, Selected, TrainEnd)


class _Rounds(msgspec.Struct):
    rounds: Natural


class _Task(msgspec.Struct, frozen=True):
    main: MetricName = ACCURACY.name
    lower: tuple[MetricName, ...] = ()


class _Experiment(msgspec.Struct):
    """The settings that are needed here; the others are only shown."""

    experiment: _Rounds
    task: _Task = _Task()


_EXPERIMENT = msgspec.json.Decoder(_Experiment)
_SECTIONS = msgspec.json.Decoder(dict[str, dict[str, Any]])


@dataclass(slots=True)
class _Round:
    """What was reported of the open round."""

    round_number: int = 0
    selected: Selected | None = None
    testers: frozenset[int] = frozenset()
    safe: set[int] = field(default_factory=set)
    measured: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Listener:
    """Everything received so far that later messages are understood with."""

    _detail: TrainDetail | None = None
    _coordinator: Connected | None = None
    _current: dict[str, CurrentRound] = field(default_factory=dict)
    _selected: dict[str, Selected] = field(default_factory=dict)
    _ended: dict[str, TrainEnd] = field(default_factory=dict)
    _boards: KnownBoards = field(default_factory=KnownBoards)
    _reported: _Round = field(default_factory=_Round)
    _main: MainMetric = ACCURACY
    _lines: dict[int, RoundLine] = field(default_factory=dict)
    _reported_end: bool = False

    def receive(self, message: Message, now: float, *, stored: bool = False) -> list[Fact]:
        """The facts that are known with this message and were not before."""
        found = [*self._note(message, now, stored=stored), *self._agree()]
        return [replace(fact, time=now) for fact in found]

    def tick(self, now: float) -> list[Fact]:
        """Boards that have sent nothing for too long are lost."""
        silent = [
            board for board in self._boards if board.here and now - board.seen > SILENCE_SECONDS
        ]
        found = [fact for board in silent for fact in self._lose(board, silent=True)]
        return [replace(fact, time=now) for fact in found]

    def reconnected(self, now: float) -> None:
        """We were away ourselves: nothing that boards did meanwhile could arrive."""
        for board in self._boards:
            board.seen = now

    def _note(self, message: Message, now: float, *, stored: bool) -> Iterator[Fact]:
        match message:
            case Connected(board=name) if name == COORDINATOR:
                yield from self._note_coordinator(message)
            case Connected():
                yield from self._note_board(message, now, stored=stored)
            case TrainDetail():
                yield from self._describe(message)
            case CurrentRound() | Selected() | TrainEnd():
                self._keep(message)
            case Info() if message.run == self._run and message.state not in ("data", "secret"):
                yield from self._note_info(message, now)
            case ClientMetrics() if message.run == self._run:
                yield from self._tested((message.client,), message.round)
            case _:
                pass

    def _keep(self, message: CurrentRound | Selected | TrainEnd) -> None:
        """Keep the newest message of each kind, for some runs."""
        match message:
            case CurrentRound(run=run):
                if _place(self._current.get(run, message)) <= _place(message):
                    self._keep_of_run(self._current, message)
            case Selected(run=run):
                if self._selected.get(run, message).round <= message.round:
                    self._keep_of_run(self._selected, message)
            case TrainEnd():
                self._keep_of_run(self._ended, message)

    def _keep_of_run(self, kept: dict[str, OfRun], message: OfRun) -> None:
        kept[message.run] = message
        others = [run for run in kept if run not in (message.run, self._run)]
        for run in others[: max(0, len(kept) - MOST_RUNS)]:
            del kept[run]

    @property
    def _run(self) -> str:
        return self._detail.run if self._detail is not None else ""

    # boards

    def _note_board(self, message: Connected, now: float, *, stored: bool) -> Iterator[Fact]:
        if not message.settled:
            return
        known = self._boards.get(message.board)
        before = known.presence if known is not None else None
        if before is not None and _is_older(message, before):
            return
        was_here = known is not None and known.here
        board = self._boards.store(message, now)
        if board is None:  # one too many: it is only counted
            yield making.presence(message, connected=message.connected)
            return
        if not message.connected:
            if known is None:
                yield making.presence(message, connected=False)
            elif was_here:
                yield from self._lose(board)
            return
        board.here = True
        yield making.presence(message, connected=True)
        if known is not None and not was_here and not stored:
            yield making.board_back(message.board)
        problem = board.presence.problem
        if problem and (before is None or before.problem != problem):
            yield making.board_problem(message.board, problem)

    def _lose(self, board: Board, *, silent: bool = False) -> Iterator[Fact]:
        board.here = False
        presence = board.presence
        yield making.presence(presence, connected=False)
        yield making.board_lost(presence.board, presence.clients, silent=silent)

    def _note_info(self, info: Info, now: float) -> Iterator[Fact]:
        board = self._boards.get(info.board)
        if board is None or not board.simulates(info.client):
            return  # the name in it is the sender's choice; a presence is under its own
        board.seen = now
        if not board.here:
            board.here = True
            yield making.presence(board.presence, connected=True)
            yield making.board_back(info.board)
        yield facts.Info(info)
        if info.state == "failed":
            yield making.client_failed(info)
        elif info.state == "reset":
            yield making.client_reset(info)

    # the coordinator

    def _note_coordinator(self, message: Connected) -> Iterator[Fact]:
        known = self._coordinator
        if known is not None and _is_older(message, known):
            return
        self._coordinator = message
        yield facts.Coordinator(message.connected, message.since, message.instance)
        same = known is not None and known.instance == message.instance
        before = known.problem if known is not None and same else ""
        if message.connected and message.problem != before:
            yield making.control_changed(message.problem, self._reported.round_number)
        ended = message.instance in self._ended
        if known is not None and known.connected and not message.connected and not ended:
            yield facts.Lost("the coordinator is gone; the run can be resumed")
        elif known is not None and message.connected and not known.connected:
            yield facts.Back("a coordinator is there")

    def _describe(self, message: TrainDetail) -> Iterator[Fact]:
        if self._detail is not None and self._detail.run == message.run:
            return
        try:
            experiment = _SECTIONS.decode(message.experiment)
            known = _EXPERIMENT.decode(message.experiment)
        except INVALID as error:
            raise ProtocolError(f"an experiment that cannot be read: {error}") from error
        self._detail = message
        self._reported, self._lines, self._reported_end = _Round(), {}, False
        rounds = known.experiment.rounds
        self._main = main_metric(known.task.main, known.task.lower)
        text = f"run {message.run}: {rounds} rounds"
        yield facts.Described(message.run, rounds, experiment, text, self._main)

    # what follows from several messages

    def _agree(self) -> Iterator[Fact]:
        if self._detail is None:
            return
        current, selected = self._current.get(self._run), self._selected.get(self._run)
        if current is not None and selected is not None and current.round == selected.round:
            yield from self._open(current, selected)
            yield from self._updated(current)
            yield from self._tested(current.measured, current.round)
        coordinator = self._coordinator
        if coordinator is not None and coordinator.instance == self._run:
            for line in coordinator.history:
                yield from self._closed(line)
        end = self._ended.get(self._run)
        if end is not None and not self._reported_end:
            self._reported_end = True
            yield facts.Finished(end.reason)

    def _open(self, current: CurrentRound, selected: Selected) -> Iterator[Fact]:
        before = self._reported
        if before.round_number == current.round and before.selected == selected:
            return
        if before.selected is not None and before.round_number + 1 == current.round:
            absent = [c for c in before.selected.clients if c not in current.accepted
                      or current.accepted[c] < before.round_number]  # fmt: skip
            if absent:
                yield making.clients_dropped(before.round_number, absent)
        self._reported = _Round(current.round, selected, frozenset(selected.testers))
        if before.round_number == current.round:  # the same round, for more clients
            self._reported.safe, self._reported.measured = before.safe, before.measured
        yield facts.RoundOpened(current.round, selected.clients, selected.testers)
        for client_id in sorted(self._reported.safe):
            yield facts.Update(client_id, current.round)
        for client_id in sorted(self._reported.measured):
            yield facts.Tested(client_id, current.round)

    def _updated(self, current: CurrentRound) -> Iterator[Fact]:
        selected = self._reported.selected
        wanted = frozenset(selected.clients) if selected is not None else frozenset()
        for client_id in current.safe:  # while paused it lists everybody
            if client_id in wanted and client_id not in self._reported.safe:
                self._reported.safe.add(client_id)
                yield facts.Update(client_id, current.round)

    def _tested(self, clients: tuple[int, ...], round_number: int) -> Iterator[Fact]:
        if round_number != self._reported.round_number:
            return
        for client_id in clients:
            known = client_id in self._reported.measured
            if not known and client_id in self._reported.testers:
                self._reported.measured.add(client_id)
                yield facts.Tested(client_id, round_number)

    def _closed(self, line: RoundLine) -> Iterator[Fact]:
        if self._lines.get(line.round) == line:
            return
        self._lines[line.round] = line
        if len(self._lines) > MOST_ROUNDS:
            del self._lines[min(self._lines)]
        yield from making.of_round_line(line, self._main)


def _place(message: CurrentRound) -> tuple[int, int]:
    return message.incarnation, message.round


def _is_older(message: Connected, known: Connected) -> bool:
    return message.instance == known.instance and message.session < known.session
