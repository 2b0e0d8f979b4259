"""PURE: what a person wants to know of a run, from the facts reported about it.

`View.after(fact)` gives the next view; drawing it is in `screen.py` and in `web/`. The same
facts are in events.jsonl, so a view works live, afterwards and in a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import TypeAlias, TypeVar

from fl_server.watch import facts
from fl_server.watch.board_view import BoardView
from fl_server.watch.facts import Fact
from fl_server.watch.facts.lines import TrainingLine, number_in
from fl_server.watch.timeline import Timeline

NOTES = 200
Loud: TypeAlias = (
    facts.Lost
    | facts.Problem
    | facts.Failed
    | facts.Rejected
    | facts.Dropped
    | facts.BrokerDown
    | facts.Late
    | facts.StateLost
    | facts.MessageDropped
    | facts.Foreign
)
Calm: TypeAlias = facts.Back | facts.BrokerUp | facts.Waiting | facts.Web | facts.Described
Noted: TypeAlias = Loud | Calm | facts.Finished

AnyLine = TypeVar("AnyLine", bound=TrainingLine)


@dataclass(frozen=True, slots=True)
class Note:
    """One line of news; `number` counts them from 1."""

    number: int
    time: float
    text: str
    loud: bool


@dataclass(frozen=True, slots=True)
class View:
    """A run as it is seen.

    `lines` are the tested models, `closed` the finished rounds; both by round, each once.
    """

    title: str = ""
    run: str = ""
    folder: str = ""
    rounds: int = 0
    done: int = 0
    round_number: int = 0
    phase: str = "connecting"
    started: float = 0.0
    boards: Mapping[str, BoardView] = field(default_factory=dict)
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
    experiment: Mapping[str, object] = field(default_factory=dict)
    timeline: Timeline = field(default_factory=Timeline)
    refused: Mapping[str, int] = field(default_factory=dict)

    def after(self, fact: Fact) -> View:
        """The view once this fact is known."""
        view = _next(fact, self._noted(fact) if isinstance(fact, Noted) else self)
        timeline = view.timeline.after(fact)
        return view if timeline is view.timeline else replace(view, timeline=timeline)

    def _noted(self, fact: Noted) -> View:
        number = self.notes[-1].number + 1 if self.notes else 1
        note = Note(number, fact.time, sentence(fact), isinstance(fact, Loud))
        return replace(self, notes=(*self.notes, note)[-NOTES:])

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

    def best(self, name: str) -> float | None:
        """The best value of an accuracy so far."""
        found = [number_in(line, name) for line in self.lines]
        return max((value for value in found if value is not None), default=None)

    def owner(self, client_id: int) -> str | None:
        """The board that simulates a client."""
        return next((n for n, b in self.boards.items() if client_id in b.clients), None)


def sentence(fact: Fact) -> str:
    """A fact as one line of news, if it has a text."""
    match fact:
        case facts.BrokerUp():
            return f"broker at {fact.address} is there"
        case facts.BrokerDown():
            return f"lost the broker at {fact.address} ({fact.text}); trying again"
        case facts.Finished():
            return f"the run has ended: {fact.reason}"
        case facts.Interrupted():
            return "interrupted"
        case facts.Note() | facts.Start() | facts.Problem() | facts.Late() | facts.Fault():
            return fact.text
        case facts.MessageDropped() | facts.Described() | facts.Web() | facts.Printed():
            return fact.text
        case _:
            return ""


@singledispatch
def _next(_fact: object, view: View) -> View:
    """The view after a fact, apart from its notes and timeline."""
    return view


@_next.register
def _(fact: facts.Started, view: View) -> View:
    return replace(
        view,
        rounds=fact.rounds,
        done=fact.done,
        folder=fact.folder,
        started=fact.time,
        phase="waiting for boards",
    )


@_next.register
def _(fact: facts.Described, view: View) -> View:
    """What is run; another run begins with the same boards and the same news."""
    if view.run not in ("", fact.run):
        view = View(
            boards={name: board.in_next_run() for name, board in view.boards.items()},
            notes=view.notes,
            broker=view.broker,
            coordinator=view.coordinator,
            started=view.started,
        )
    return replace(
        view,
        title=fact.run.rpartition(".")[0] or fact.run,
        run=fact.run,
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
    board = view.boards.get(fact.board, BoardView())
    return _with_board(view, fact.board, board.after_presence(fact))


@_next.register
def _(fact: facts.Info, view: View) -> View:
    board = view.boards.get(fact.info.board, BoardView(clients=(fact.info.client,)))
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
        return (*lines, fact)
    known = {line.round: line for line in lines} | {fact.round: fact}
    return tuple(known[round_number] for round_number in sorted(known))


@_next.register
def _(fact: facts.Finished, view: View) -> View:
    return replace(view, phase=fact.reason, digest=fact.digest, done=view.rounds, finished=True)


@_next.register
def _(_fact: facts.BrokerUp, view: View) -> View:
    return replace(view, broker="")


@_next.register
def _(fact: facts.BrokerDown, view: View) -> View:
    return replace(view, broker=fact.text or "no connection")


@_next.register
def _(fact: facts.Refused, view: View) -> View:
    return replace(view, refused={**view.refused, fact.board: fact.count})


def _with_board(view: View, name: str, board: BoardView) -> View:
    return replace(view, boards={**view.boards, name: board})
