"""PURE: a view as the web page gets it: small named sections, and what changed between two."""

from __future__ import annotations

from statistics import median
from typing import TypeAlias

import msgspec

from common.ids import brief_ids
from common.tasks.task import STAGES
from fl_server.watch.board_view import BoardView
from fl_server.watch.facts.lines import number_in
from fl_server.watch.timeline import Span
from fl_server.watch.view import View
from fl_server.watch.waiting import pending_boards, waits_for

MOST_WAITED = 50  # boards that the open round waits for, by name
RECENT = 5  # rounds from which the length of the next ones is estimated
LANE = 40  # spans of a board that the page shows
LANES = 20_000  # of all boards
CURVE = (
    "loss_global",
    "train_loss",
    "seconds",
    "bytes_up",
    "bytes_down",
    "updates",
    "energy_joules",
    "epsilon",
)

Sections: TypeAlias = dict[str, bytes]  # name -> JSON
Values: TypeAlias = dict[str, object]  # name -> what becomes JSON


def model(view: View) -> Values:
    """Everything that is shown, as values by section."""
    found: Values = {
        "run": {
            "title": view.title,
            "run": view.run,
            "rounds": view.rounds,
            "main": view.main,
            "experiment": view.experiment,
        },
        "now": {
            "going_on": view.going_on,
            "finished": view.finished,
            "coordinator": view.coordinator,
            "broker": view.broker,
            "phase": view.phase,
            "control_state": view.control_state,
            "waits": waits_for(view),
            "waits_on": tuple(pending_boards(view))[:MOST_WAITED] if view.going_on else (),
            "opened": _opened(view),
            "usual_seconds": _usual_seconds(view),
            "more_boards": len(view.unlisted),
            "round": view.round_number,
            "done": view.done,
            "share": round(view.share_done, 4),
            "started": view.started,
            "seconds_left": view.seconds_left,
            "selected": len(view.selected),
            "safe": len(view.safe & set(view.selected)),
            "testers": len(view.testers),
            "measured": len(view.measured & set(view.testers)),
        },
        "marks": view.timeline.marks,
    }
    selected, testers = frozenset(view.selected), frozenset(view.testers)
    lane = min(LANE, LANES // max(1, len(view.boards)))
    for name, board in view.boards.items():
        mine = frozenset(board.clients)
        found[f"board:{name}"] = {
            **_board(board),
            "selected": len(mine & selected),
            "sent": len(mine & selected & view.safe),
            "testers": len(mine & testers),
            "measured": len(mine & testers & view.measured),
        }
        found[f"lane:{name}"] = [_span(s) for s in view.timeline.lanes.get(name, ())[-lane:]]
    for round_number, line in _lines(view).items():
        found[f"line:{round_number}"] = line
    for note in view.notes:
        found[f"note:{note.number}"] = {
            "time": note.time,
            "text": note.text,
            "loud": note.loud,
        }
    return found


def sections(view: View) -> Sections:
    """Every section as JSON."""
    return {name: msgspec.json.encode(value) for name, value in model(view).items()}


def whole(current: Sections, now: float) -> bytes:
    """The first message to a new viewer."""
    return _message(current, (), now)


def change(old: Sections, new: Sections, now: float) -> bytes | None:
    """The message to a viewer who knows the old sections; None if nothing has changed."""
    changed = {name: value for name, value in new.items() if old.get(name) != value}
    gone = [name for name in old if name not in new]
    return _message(changed, gone, now) if changed or gone else None


def _message(changed: Sections, gone: list[str] | tuple[()], now: float) -> bytes:
    values = {name: msgspec.Raw(value) for name, value in changed.items()}
    return msgspec.json.encode({"now": round(now, 3), "set": values, "gone": gone})


def _opened(view: View) -> float | None:
    """When the open round was opened, if that was seen."""
    mark = view.timeline.marks[-1] if view.timeline.marks else None
    return mark[1] if mark is not None and mark[0] == view.round_number else None


def _usual_seconds(view: View) -> float | None:
    recent = view.round_seconds[-RECENT:]
    return round(median(recent), 3) if recent else None


def _board(board: BoardView) -> Values:
    return {
        "here": board.here,
        "doing": board.doing,
        "clients": brief_ids(board.clients, board.more_clients),
        "count": len(board.clients) + board.more_clients,
        "client": board.client,
        "epoch": board.epoch,
        "epochs": board.epochs,
        "seen": round(board.seen, 1),
        "problem": board.problem,
        "host": board.host,
        "telemetry": board.telemetry or {},
    }


def _span(span: Span) -> tuple[object, ...]:
    return span.client, span.round, span.kind, span.start, span.end, span.cut


def _lines(view: View) -> dict[int, Values]:
    merged: dict[int, Values] = {}
    for line in (*view.closed, *view.lines):
        found = {key: number_in(line, key) for key in CURVE}
        found |= {f"main_{stage}": view.main.of(line, stage) for stage in STAGES.values()}
        known = {key: value for key, value in found.items() if value is not None}
        merged[line.round] = {**merged.get(line.round, {}), **known}
    return dict(sorted(merged.items()))
