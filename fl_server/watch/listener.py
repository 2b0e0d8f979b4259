"""What is said on the topics, as the facts that a view is made of; no IO, time is an argument.

The coordinator tells its own display these facts. Whoever only listens finds them again in the
messages: stored ones come in any order when one begins to listen, so a fact is told once
everything that it needs is known, and only once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from common.errors import ProtocolError
from common.ids import show_ids
from common.wire.messages import (
    COORDINATOR,
    ClientMetrics,
    Connected,
    CurrentRound,
    Info,
    Message,
    RoundLine,
    Selected,
    TrainDetail,
    TrainEnd,
)

SILENT_SECONDS = 60.0  # then a board counts as lost: a last will can die with the broker

Fact = dict[str, Any]  # as told by the coordinator, see `conductor.py`


@dataclass(slots=True)
class _Board:
    said: Connected
    heard: float
    here: bool


@dataclass(slots=True)
class _Round:
    """What was told of the open round."""

    number: int = 0
    selected: Selected | None = None
    safe: set[int] = field(default_factory=set)
    measured: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Listener:
    """Everything heard so far that later messages are understood with."""

    _detail: TrainDetail | None = None
    _coordinator: Connected | None = None
    _current: dict[str, CurrentRound] = field(default_factory=dict)
    _selected: dict[str, Selected] = field(default_factory=dict)
    _ended: dict[str, TrainEnd] = field(default_factory=dict)
    _boards: dict[str, _Board] = field(default_factory=dict)
    _told: _Round = field(default_factory=_Round)
    _lines: dict[int, RoundLine] = field(default_factory=dict)
    _told_end: bool = False

    def hear(self, message: Message, now: float, *, stored: bool = False) -> list[Fact]:
        """The facts that are known with this message and were not before."""
        facts = [
            *self._note(message, now, stored=stored),
            *self._agree(),
        ]
        return [{**fact, "time": fact.get("time", now)} for fact in facts]

    def tick(self, now: float) -> list[Fact]:
        """Boards that have said nothing for long are lost."""
        silent = [
            board
            for board in self._boards.values()
            if board.here and now - board.heard > SILENT_SECONDS
        ]
        return [fact for board in silent for fact in self._lose(board, "silent", now)]

    def reconnected(self, now: float) -> None:
        """We are back at the broker: what was not heard meanwhile says nothing."""
        for board in self._boards.values():
            board.heard = now

    def _note(self, message: Message, now: float, *, stored: bool) -> Iterator[Fact]:
        match message:
            case Connected(board=name) if name == COORDINATOR:
                yield from self._meet_coordinator(message)
            case Connected():
                yield from self._meet(message, now, stored=stored)
            case TrainDetail():
                yield from self._describe(message)
            case CurrentRound(run=run):
                self._keep_newer(run, message)
            case Selected(run=run):
                known = self._selected.get(run)
                if known is None or known.round <= message.round:
                    self._selected[run] = message
            case TrainEnd(run=run):
                self._ended[run] = message
            case Info() if message.run == self._run:
                yield from self._follow(message, now)
            case ClientMetrics() if message.run == self._run:
                yield from self._tested((message.client,), message.round)
            case _:
                pass

    @property
    def _run(self) -> str:
        return self._detail.run if self._detail is not None else ""

    # boards

    def _meet(self, message: Connected, now: float, *, stored: bool) -> Iterator[Fact]:
        if not message.settled:
            return
        known = self._boards.get(message.board)
        same = known is not None and known.said.instance == message.instance
        if known is not None and same and message.session < known.said.session:
            return
        board = known or _Board(message, now, here=False)
        was_here, board.said, board.heard = board.here, message, now
        self._boards[message.board] = board
        if not message.connected:
            if known is None:
                yield _presence(message, here=False)
            elif was_here:
                yield from self._lose(board, "lost", now)
            return
        board.here = True
        yield _presence(message, here=True)
        if known is not None and not was_here and not stored:
            yield _note("back", f"board {message.board} is back", board=message.board)
        if message.problem and (known is None or known.said.problem != message.problem):
            text = f"board {message.board}: {message.problem}"
            yield _note("problem", text, board=message.board)

    def _lose(self, board: _Board, how: str, now: float) -> Iterator[Fact]:
        board.here = False
        name = board.said.board
        text = "is lost" if how == "lost" else f"has said nothing for {SILENT_SECONDS:.0f} s"
        yield {**_presence(board.said, here=False), "time": now}
        yield {**_note("lost", f"board {name} {text}", board=name), "time": now}

    def _follow(self, info: Info, now: float) -> Iterator[Fact]:
        board = self._boards.get(info.board)
        if board is not None:
            board.heard = now
            if not board.here:
                board.here = True
                yield _presence(board.said, here=True)
                yield _note("back", f"board {info.board} is back", board=info.board)
        yield {"event": "info", **msgspec.to_builtins(info)}
        if info.state == "failed":
            text = f"client {info.client} on {info.board} failed: {info.problem}"
            yield _note("failed", text, board=info.board)
        elif info.state == "reset":
            text = f"client {info.client} on {info.board}: {info.problem}"
            yield _note("state_lost", text, board=info.board)

    # the coordinator

    def _meet_coordinator(self, message: Connected) -> Iterator[Fact]:
        known = self._coordinator
        same = known is not None and known.instance == message.instance
        if known is not None and same and message.session < known.session:
            return
        self._coordinator = message
        yield {
            "event": "coordinator",
            "connected": message.connected,
            "since": message.since,
            "run": message.instance,
        }
        ended = message.instance in self._ended
        if known is not None and known.connected and not message.connected and not ended:
            yield _note("lost", "the coordinator is gone; the run can be resumed")
        elif known is not None and message.connected and not known.connected:
            yield _note("back", "a coordinator is there")

    def _describe(self, message: TrainDetail) -> Iterator[Fact]:
        if self._detail is not None and self._detail.run == message.run:
            return
        try:
            experiment = msgspec.json.decode(message.experiment)
            rounds = int(experiment["experiment"]["rounds"])
        except (msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"an experiment that cannot be read: {error}") from error
        self._detail = message
        self._told, self._lines, self._told_end = _Round(), {}, False
        yield {
            "event": "described",
            "run": message.run,
            "rounds": rounds,
            "experiment": experiment,
            "text": f"run {message.run}: {rounds} rounds",
        }

    def _keep_newer(self, run: str, message: CurrentRound) -> None:
        known = self._current.get(run)
        if known is None or _place(known) <= _place(message):
            self._current[run] = message

    # what several messages say together

    def _agree(self) -> Iterator[Fact]:
        if self._detail is None:
            return
        current, selected = self._current.get(self._run), self._selected.get(self._run)
        if current is not None and selected is not None and current.round == selected.round:
            yield from self._open(current, selected)
            yield from self._updated(current)
            yield from self._tested(current.measured, current.round)
        said = self._coordinator
        if said is not None and said.instance == self._run:
            for line in said.history:
                yield from self._closed(line)
        end = self._ended.get(self._run)
        if end is not None and not self._told_end:
            self._told_end = True
            yield {"event": "finished", "reason": end.reason}

    def _open(self, current: CurrentRound, selected: Selected) -> Iterator[Fact]:
        told = self._told
        if told.number == current.round and told.selected == selected:
            return
        if told.selected is not None and told.number + 1 == current.round:
            absent = [c for c in told.selected.clients if c not in current.accepted
                      or current.accepted[c] < told.number]  # fmt: skip
            if absent:
                text = f"round {told.number} closed without clients {show_ids(absent)}"
                yield _note("dropped", text)
        again = told.number == current.round  # the same round, for more clients
        self._told = _Round(current.round, selected)
        if again:
            self._told.safe, self._told.measured = told.safe, told.measured
        yield {
            "event": "round_opened",
            "round": current.round,
            "selected": selected.clients,
            "testers": selected.testers,
        }
        for event, clients in (("update", self._told.safe), ("tested", self._told.measured)):
            for client in sorted(clients):
                yield {"event": event, "client": client, "round": current.round}

    def _updated(self, current: CurrentRound) -> Iterator[Fact]:
        for client in current.safe:
            if client not in self._told.safe:
                self._told.safe.add(client)
                yield {"event": "update", "client": client, "round": current.round}

    def _tested(self, clients: tuple[int, ...], number: int) -> Iterator[Fact]:
        if number != self._told.number:
            return
        for client in clients:
            if client not in self._told.measured:
                self._told.measured.add(client)
                yield {"event": "tested", "client": client, "round": number}

    def _closed(self, line: RoundLine) -> Iterator[Fact]:
        if self._lines.get(line.round) == line:
            return
        self._lines[line.round] = line
        known = {k: v for k, v in msgspec.structs.asdict(line).items() if v is not None}
        known["train_loss"] = line.train_loss
        if {"seconds", "bytes_up", "bytes_down", "updates"} <= known.keys():
            yield {"event": "round_closed", **known}
        if line.accuracy_global is not None or line.accuracy_l1 is not None:
            stages = ("accuracy_global", "accuracy_l1", "accuracy_l2")
            yield {"event": "evaluated", **dict.fromkeys(stages), **known}


def _place(message: CurrentRound) -> tuple[int, int]:
    return message.incarnation, message.round


def _presence(message: Connected, *, here: bool) -> Fact:
    return {
        "event": "presence",
        "board": message.board,
        "connected": here,
        "clients": message.clients,
        "host": message.host,
        "problem": message.problem if here else "",
        "telemetry": msgspec.to_builtins(message.telemetry) if here else None,
    }


def _note(kind: str, text: str, board: str | None = None) -> Fact:
    return {"event": kind, "text": text, "board": board}
