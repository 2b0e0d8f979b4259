"""PURE: what a person wants to know of a run, from the facts reported about it.

`View.after(fact)` gives the next view; drawing it is in `screen.py` and in `web/`. The same
facts are in events.jsonl, so a view works live, afterwards and in a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch
from typing import TypeVar

import msgspec

from common.values import Value, replace
from common.wire.messages import Ids
from fl_server.watch import facts
from fl_server.watch.board_view import BoardView
from fl_server.watch.facts import Fact
from fl_server.watch.facts.lines import ACCURACY, MainMetric, TrainingLine
from fl_server.watch.limits import (
    FEW_CLIENTS,
    MOST_BOARDS,
    MOST_NOTES,
    MOST_ROUNDS,
    MOST_UNLISTED,
    kept_clients,
)
from fl_server.watch.notes import Note, Noted, note_of
from fl_server.watch.timeline import Timeline

AnyLine = TypeVar("AnyLine", bound=TrainingLine)


class View(Value, frozen=True):
    """A run as it is seen.

    `lines` are the tested models, `closed` the finished rounds; both by round, each once.
    """

    title: str = ""
    run: str = ""
    folder: str = ""
    main: MainMetric = ACCURACY
    rounds: int = 0
    done: int = 0
    round_number: int = 0
    phase: str = "connecting"
    control_state: str = ""  # "pausing", "paused" or "stopping" if somebody asked for it
    started: float = 0.0
    boards: Mapping[str, BoardView] = msgspec.field(default_factory=dict)
    unlisted: frozenset[str] = frozenset()  # boards beyond MOST_BOARDS, as far as counted
    selected: tuple[int, ...] = ()
    testers: tuple[int, ...] = ()
    safe: frozenset[int] = frozenset()
    measured: frozenset[int] = frozenset()
    lines: tuple[facts.Evaluated, ...] = ()
    closed: tuple[facts.RoundClosed, ...] = ()
    notes: tuple[Note, ...] = ()
    digest: str = ""
    finished: bool = False
    coordinator: bool | None = None
    broker: str = ""
    experiment: Mapping[str, object] = msgspec.field(default_factory=dict)
    timeline: Timeline = msgspec.field(default_factory=Timeline)
    refused: Mapping[str, int] = msgspec.field(default_factory=dict)

    def after(self, fact: Fact) -> View:
        """The view once this fact is known."""
        if isinstance(fact, facts.Info) and not self._is_credible(fact):
            return self
        view = _next(fact, self._noted(fact) if isinstance(fact, Noted) else self)
        owner = view.owner(fact.client) if isinstance(fact, facts.Tested) else None
        timeline = view.timeline.after(fact, owner)
        return view if timeline is view.timeline else replace(view, timeline=timeline)

    def _noted(self, fact: Noted) -> View:
        number = self.notes[-1].number + 1 if self.notes else 1
        return replace(self, notes=(*self.notes, note_of(fact, number))[-MOST_NOTES:])

    def _is_credible(self, fact: facts.Info) -> bool:
        """Whether it is of a board that is known and simulates this client.

        The name of the board in it is the sender's choice; its presence is under its own.
        """
        board = self.boards.get(fact.info.board)
        return board is not None and board.simulates(fact.info.client)

    @property
    def last(self) -> facts.RoundClosed | None:
        """The last finished round."""
        return self.closed[-1] if self.closed else None

    @property
    def round_seconds(self) -> tuple[float, ...]:
        """How long the finished rounds took."""
        return tuple(line.seconds for line in self.closed)

    @property
    def going_on(self) -> bool:
        """Whether a coordinator works on this run at this moment."""
        return bool(self.rounds) and not self.finished and self.coordinator is not False

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the last rounds."""
        recent = self.round_seconds[-5:]
        if not recent:
            return None
        return sum(recent) / len(recent) * (self.rounds - self.done)

    @property
    def share_done(self) -> float:
        """How far the run is, from 0 to 1; the open round counts by its updates."""
        if not self.rounds:
            return 0.0
        part = len(self.safe) / len(self.selected) if self.selected else 0.0
        return min(1.0, (self.done + part) / self.rounds)

    @property
    def best(self) -> float | None:
        """The best value of the main metric of the global model so far."""
        found = [self.main.of(line, "global") for line in self.lines]
        choose = min if self.main.lower else max
        return choose((value for value in found if value is not None), default=None)

    def restarted(self) -> View:
        """The same run before a coordinator goes on with it."""
        boards = {name: board.not_back_yet() for name, board in self.boards.items()}
        again = replace(self, boards=boards, round_number=0, selected=(), safe=frozenset())
        return replace(again, phase="starting", started=0.0)

    def owner(self, client_id: int) -> str | None:
        """The board that simulates a client."""
        return next((n for n, b in self.boards.items() if client_id in b.clients), None)


@singledispatch
def _next(_fact: object, view: View) -> View:
    """The view after a fact, apart from its notes and timeline."""
    return view


@_next.register
def _(fact: facts.Started, view: View) -> View:
    return replace(
        view.restarted(),
        main=fact.main,
        rounds=fact.rounds,
        done=fact.done,
        folder=fact.folder,
        started=fact.time,
        safe=frozenset(fact.safe),
        phase="waiting for boards",
        control_state="",
    )


@_next.register
def _(fact: facts.Described, view: View) -> View:
    """What is run; another run begins with the same boards and the same news."""
    if view.run not in ("", fact.run):
        view = View(
            boards={name: board.in_next_run() for name, board in view.boards.items()},
            unlisted=view.unlisted,
            notes=view.notes,
            broker=view.broker,
            coordinator=view.coordinator,
            started=view.started,
        )
    return replace(
        view,
        title=fact.run.rpartition(".")[0] or fact.run,
        run=fact.run,
        main=fact.main,
        rounds=fact.rounds,
        experiment=fact.experiment,
        phase="waiting for boards" if not view.round_number else view.phase,
    )


@_next.register
def _(fact: facts.Coordinator, view: View) -> View:
    started = fact.since if fact.connected else view.started
    return replace(view, coordinator=fact.connected, started=started)


@_next.register
def _(fact: facts.Presence, view: View) -> View:
    known = view.boards.get(fact.board)
    if known is None and len(view.boards) >= MOST_BOARDS:
        lost = next((name for name, board in view.boards.items() if not board.here), None)
        if lost is None or not fact.connected:
            more = len(view.unlisted) < MOST_UNLISTED
            return replace(view, unlisted=view.unlisted | {fact.board}) if more else view
        others = {name: board for name, board in view.boards.items() if name != lost}
        view = replace(view, boards=others, timeline=view.timeline.without(lost))
    board = known or BoardView()
    if fact.connected or known is None:
        board = _with_clients(view, board, fact.clients)
    return _with_board(view, fact.board, board.after_presence(fact))


def _with_clients(view: View, board: BoardView, clients: Ids) -> BoardView:
    kept = clients
    if len(clients) > FEW_CLIENTS:
        claimed = sum(len(other.clients) for other in view.boards.values())
        kept = kept_clients(clients, claimed - len(board.clients))
    return replace(board, clients=kept, more_clients=len(clients) - len(kept))


@_next.register
def _(fact: facts.Info, view: View) -> View:
    board = view.boards[fact.info.board]
    return _with_board(view, fact.info.board, board.after_info(fact))


@_next.register
def _(fact: facts.RoundOpened, view: View) -> View:
    return replace(
        view,
        round_number=fact.round,
        done=max(view.done, fact.round - 1),
        phase="training" if fact.selected else "testing the final model",
        selected=fact.selected,
        testers=fact.testers,
        safe=frozenset(),
        measured=frozenset(),
    )


@_next.register
def _(fact: facts.Update, view: View) -> View:
    return _seen(replace(view, safe=view.safe | {fact.client}), fact)


@_next.register
def _(fact: facts.Tested, view: View) -> View:
    return _seen(replace(view, measured=view.measured | {fact.client}), fact)


def _seen(view: View, fact: facts.Update | facts.Tested) -> View:
    owner = view.owner(fact.client)
    if owner is None:
        return view
    mine = set(view.boards[owner].clients)
    pending = (set(view.selected) - view.safe | set(view.testers) - view.measured) & mine
    board = replace(view.boards[owner], seen=fact.time)
    return _with_board(view, owner, board if pending else replace(board, doing="done"))


@_next.register
def _(fact: facts.RoundClosed, view: View) -> View:
    done = max(view.done, fact.round)
    return replace(view, done=done, closed=_by_round(view.closed, fact))


@_next.register
def _(fact: facts.Evaluated, view: View) -> View:
    return replace(view, lines=_by_round(view.lines, fact))


def _by_round(lines: tuple[AnyLine, ...], fact: AnyLine) -> tuple[AnyLine, ...]:
    """With this line in its place; a round that is reported again counts once."""
    if not lines or lines[-1].round < fact.round:
        return (*lines, fact)[-MOST_ROUNDS:]
    known = {line.round: line for line in lines} | {fact.round: fact}
    return tuple(known[round_number] for round_number in sorted(known))[-MOST_ROUNDS:]


@_next.register
def _(fact: facts.Finished, view: View) -> View:
    return replace(view, phase=fact.reason, digest=fact.digest, done=view.rounds, finished=True)


@_next.register
def _(fact: facts.ControlNote, view: View) -> View:
    return replace(view, control_state=fact.control_state)


@_next.register
def _(_fact: facts.BrokerUp, view: View) -> View:
    return replace(view, broker="")


@_next.register
def _(fact: facts.BrokerDown, view: View) -> View:
    return replace(view, broker=fact.text or "no connection")


@_next.register
def _(fact: facts.Refused, view: View) -> View:
    if fact.board not in view.refused and len(view.refused) >= MOST_BOARDS:
        return view
    return replace(view, refused={**view.refused, fact.board: fact.count})


def _with_board(view: View, name: str, board: BoardView) -> View:
    return replace(view, boards={**view.boards, name: board})
