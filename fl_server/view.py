"""PURE: what a person wants to know of a run, from the facts told about it.

`View.after(fact)` gives the next view; drawing it is in `dashboard.py`. The same facts are in
events.jsonl, so a view works live, afterwards and in a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

NOTES = 6
LOUD = {
    "lost",
    "problem",
    "failed",
    "rejected",
    "dropped",
    "broker_down",
    "late",
    "state_lost",
    "message_dropped",
    "foreign",
}
NOTED = LOUD | {"back", "broker_up", "waiting"}


@dataclass(frozen=True, slots=True)
class BoardView:
    """One board as it is seen."""

    clients: tuple[int, ...] = ()
    here: bool = True
    doing: str = "waiting"
    client: int | None = None
    epoch: int = 0
    epochs: int = 0
    seen: float = 0.0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """One line of news."""

    time: float
    text: str
    loud: bool


@dataclass(frozen=True, slots=True)
class View:
    """A run as it is seen."""

    title: str = ""
    folder: str = ""
    rounds: int = 0
    done: int = 0
    number: int = 0
    phase: str = "connecting"
    started: float = 0.0
    boards: Mapping[str, BoardView] = field(default_factory=dict)
    selected: tuple[int, ...] = ()
    testers: tuple[int, ...] = ()
    safe: frozenset[int] = frozenset()
    measured: frozenset[int] = frozenset()
    lines: tuple[Mapping[str, Any], ...] = ()
    last: Mapping[str, Any] = field(default_factory=dict)
    round_seconds: tuple[float, ...] = ()
    notes: tuple[Note, ...] = ()
    digest: str = ""
    refused: Mapping[str, int] = field(default_factory=dict)

    def after(self, fact: Mapping[str, Any]) -> View:
        """The view once this fact is known."""
        view = self._noted(fact) if fact["event"] in NOTED else self
        handler = _HANDLERS.get(fact["event"])
        return handler(view, fact) if handler is not None else view

    def _noted(self, fact: Mapping[str, Any]) -> View:
        text = str(fact.get("text") or f"broker at {fact.get('address', '?')} is there")
        if fact["event"] == "broker_down":
            text = f"lost the broker at {fact['address']} ({text}); trying again"
        note = Note(fact["time"], text, fact["event"] in LOUD)
        return replace(self, notes=(*self.notes, note)[-NOTES:])

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
        return max(
            (line[name] for line in self.lines if line.get(name) is not None), default=None
        )

    def owner(self, client: int) -> str | None:
        """The board that simulates a client."""
        return next((n for n, b in self.boards.items() if client in b.clients), None)


def _started(view: View, fact: Mapping[str, Any]) -> View:
    return replace(
        view,
        rounds=fact["rounds"],
        done=fact["done"],
        folder=fact["folder"],
        started=fact["time"],
        phase="waiting for boards",
    )


def _presence(view: View, fact: Mapping[str, Any]) -> View:
    board = view.boards.get(fact["board"], BoardView())
    board = replace(
        board,
        clients=tuple(fact["clients"]),
        here=fact["connected"],
        seen=fact["time"],
        doing="waiting" if fact["connected"] else "lost",
    )
    return _with_board(view, fact["board"], board)


def _info(view: View, fact: Mapping[str, Any]) -> View:
    board = view.boards.get(fact["board"], BoardView(clients=(fact["client"],)))
    board = replace(
        board,
        doing=fact["state"],
        client=fact["client"],
        epoch=fact.get("epoch") or 0,
        epochs=fact.get("epochs") or 0,
        seen=fact["time"],
        here=True,
        problem=fact.get("problem") or "",
    )
    return _with_board(view, fact["board"], board)


def _round_opened(view: View, fact: Mapping[str, Any]) -> View:
    return replace(
        view,
        number=fact["round"],
        phase="training" if fact["selected"] else "testing the final model",
        selected=tuple(fact["selected"]),
        testers=tuple(fact["testers"]),
        safe=frozenset(),
        measured=frozenset(),
    )


def _update(view: View, fact: Mapping[str, Any]) -> View:
    return _seen(replace(view, safe=view.safe | {fact["client"]}), fact)


def _tested(view: View, fact: Mapping[str, Any]) -> View:
    return _seen(replace(view, measured=view.measured | {fact["client"]}), fact)


def _seen(view: View, fact: Mapping[str, Any]) -> View:
    owner = view.owner(fact["client"])
    if owner is None:
        return view
    mine = set(view.boards[owner].clients)
    pending = (set(view.selected) - view.safe | set(view.testers) - view.measured) & mine
    board = replace(view.boards[owner], seen=fact["time"])
    return _with_board(view, owner, board if pending else replace(board, doing="done"))


def _round_closed(view: View, fact: Mapping[str, Any]) -> View:
    return replace(
        view,
        done=fact["round"],
        last=fact,
        round_seconds=(*view.round_seconds, fact["seconds"]),
    )


def _evaluated(view: View, fact: Mapping[str, Any]) -> View:
    return replace(view, lines=(*view.lines, fact))


def _finished(view: View, fact: Mapping[str, Any]) -> View:
    return replace(view, phase=fact["reason"], digest=fact["digest"], done=view.rounds)


def _refused(view: View, fact: Mapping[str, Any]) -> View:
    return replace(view, refused={**view.refused, fact["board"]: fact["count"]})


def _with_board(view: View, name: str, board: BoardView) -> View:
    return replace(view, boards={**view.boards, name: board})


_HANDLERS = {
    "started": _started,
    "presence": _presence,
    "info": _info,
    "round_opened": _round_opened,
    "update": _update,
    "tested": _tested,
    "round_closed": _round_closed,
    "evaluated": _evaluated,
    "finished": _finished,
    "refused": _refused,
}
