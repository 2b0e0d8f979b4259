"""PURE: what a person wants to know of a run, from the facts told about it.

`View.after(fact)` gives the next view; drawing it is in `dashboard.py`. The same facts are in
events.jsonl, so a view works live, afterwards and in a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fl_server.watch.timeline import Timeline

NOTES = 200
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
NOTED = LOUD | {"back", "broker_up", "waiting", "web", "described", "finished"}


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
    host: str = ""
    telemetry: Mapping[str, Any] = field(default_factory=dict)


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
    number: int = 0
    phase: str = "connecting"
    started: float = 0.0
    boards: Mapping[str, BoardView] = field(default_factory=dict)
    selected: tuple[int, ...] = ()
    testers: tuple[int, ...] = ()
    safe: frozenset[int] = frozenset()
    measured: frozenset[int] = frozenset()
    lines: tuple[Mapping[str, Any], ...] = ()
    closed: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[Note, ...] = ()
    digest: str = ""
    finished: bool = False
    coordinator: bool | None = None
    broker: str = ""
    experiment: Mapping[str, Any] = field(default_factory=dict)
    timeline: Timeline = field(default_factory=Timeline)
    refused: Mapping[str, int] = field(default_factory=dict)

    def after(self, fact: Mapping[str, Any]) -> View:
        """The view once this fact is known."""
        view = self._noted(fact) if fact["event"] in NOTED else self
        handler = _HANDLERS.get(fact["event"])
        view = handler(view, fact) if handler is not None else view
        timeline = view.timeline.after(fact)
        return view if timeline is view.timeline else replace(view, timeline=timeline)

    def _noted(self, fact: Mapping[str, Any]) -> View:
        text = str(fact.get("text", ""))
        if fact["event"] == "broker_up":
            text = f"broker at {fact['address']} is there"
        elif fact["event"] == "broker_down":
            text = f"lost the broker at {fact['address']} ({text}); trying again"
        elif fact["event"] == "finished":
            text = f"the run has ended: {fact['reason']}"
        number = self.notes[-1].number + 1 if self.notes else 1
        note = Note(number, fact["time"], text, fact["event"] in LOUD)
        return replace(self, notes=(*self.notes, note)[-NOTES:])

    @property
    def last(self) -> Mapping[str, Any]:
        """The last finished round, or nothing."""
        return self.closed[-1] if self.closed else {}

    @property
    def round_seconds(self) -> tuple[float, ...]:
        """How long the finished rounds took."""
        return tuple(float(line["seconds"]) for line in self.closed)

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


def _described(view: View, fact: Mapping[str, Any]) -> View:
    """What is run; another run begins with the same boards and the same news."""
    if view.run not in ("", fact["run"]):
        boards = {
            name: replace(b, doing="waiting" if b.here else "lost", client=None)
            for name, b in view.boards.items()
        }
        view = View(
            boards=boards,
            notes=view.notes,
            broker=view.broker,
            coordinator=view.coordinator,
            started=view.started,
        )
    return replace(
        view,
        title=fact["run"].rpartition(".")[0] or fact["run"],
        run=fact["run"],
        rounds=fact["rounds"],
        experiment=fact["experiment"],
        phase="waiting for boards" if not view.number else view.phase,
    )


def _coordinator(view: View, fact: Mapping[str, Any]) -> View:
    started = fact["since"] if fact["connected"] else view.started
    return replace(view, coordinator=fact["connected"], started=started)


def _presence(view: View, fact: Mapping[str, Any]) -> View:
    board = view.boards.get(fact["board"], BoardView())
    doing = board.doing if board.here else "waiting"
    board = replace(
        board,
        clients=tuple(fact["clients"]),
        here=fact["connected"],
        seen=fact["time"],
        doing=doing if fact["connected"] else "lost",
        host=fact.get("host") or board.host,
        problem=fact.get("problem") or "",
        telemetry=fact.get("telemetry") or board.telemetry,
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
        telemetry=fact.get("telemetry") or board.telemetry,
    )
    return _with_board(view, fact["board"], board)


def _round_opened(view: View, fact: Mapping[str, Any]) -> View:
    return replace(
        view,
        number=fact["round"],
        done=max(view.done, fact["round"] - 1),
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
    done = max(view.done, fact["round"])
    return replace(view, done=done, closed=_by_round(view.closed, fact))


def _evaluated(view: View, fact: Mapping[str, Any]) -> View:
    return replace(view, lines=_by_round(view.lines, fact))


def _by_round(
    lines: tuple[Mapping[str, Any], ...], fact: Mapping[str, Any]
) -> tuple[Mapping[str, Any], ...]:
    """With this line in its place; a round that is told again counts once."""
    if not lines or lines[-1]["round"] < fact["round"]:
        return (*lines, fact)
    known = {line["round"]: line for line in lines} | {fact["round"]: fact}
    return tuple(known[number] for number in sorted(known))


def _finished(view: View, fact: Mapping[str, Any]) -> View:
    digest = fact.get("digest", "")
    return replace(view, phase=fact["reason"], digest=digest, done=view.rounds, finished=True)


def _broker_up(view: View, _fact: Mapping[str, Any]) -> View:
    return replace(view, broker="")


def _broker_down(view: View, fact: Mapping[str, Any]) -> View:
    return replace(view, broker=fact.get("text") or "no connection")


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
    "described": _described,
    "coordinator": _coordinator,
    "broker_up": _broker_up,
    "broker_down": _broker_down,
    "refused": _refused,
}
