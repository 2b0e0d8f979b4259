"""PURE: who trained and tested when: a strip of spans per board, from the facts of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from common.values import Value, replace
from common.wire.messages import Info
from fl_server.watch import facts
from fl_server.watch.facts import Fact

SPANS = 40  # per board
MARKS = 40  # rounds

Kind = Literal["train", "test"]
_KINDS: dict[str, Kind] = {"training": "train", "trained": "train", "testing": "test"}


class Span(Value, frozen=True):
    """One client's work; open as long as it has no end. `cut`: the board was lost meanwhile."""

    client: int
    round: int
    kind: Kind
    start: float
    end: float | None = None
    cut: bool = False


Lanes = Mapping[str, tuple[Span, ...]]


class Timeline(Value, frozen=True):
    """The last spans of every board, and when each of the last rounds began."""

    lanes: Lanes = msgspec.field(default_factory=dict)
    marks: tuple[tuple[int, float], ...] = ()

    def after(self, fact: Fact, owner: str | None = None) -> Timeline:
        """The timeline once this fact is known; `owner`: the board of the tested client."""
        match fact:
            case facts.Info():
                return self._worked(fact.info, fact.time)
            case facts.Tested(client=client_id) if owner is not None and owner in self.lanes:
                lane = self.lanes[owner]
                ended = _closed(lane, lambda span: _is_test(span, client_id), fact.time)
                return replace(self, lanes={**self.lanes, owner: ended})
            case facts.Presence(connected=False, board=board) if board in self.lanes:
                lost = _closed(self.lanes[board], lambda _: True, fact.time, cut=True)
                return replace(self, lanes={**self.lanes, board: lost})
            case facts.RoundOpened():
                return self._opened(fact.round, fact.time)
            case facts.Finished():
                return self._ended(lambda _: True, fact.time)
            case _:
                return self

    def without(self, board: str) -> Timeline:
        """The timeline of all other boards."""
        return replace(self, lanes={b: lane for b, lane in self.lanes.items() if b != board})

    def _opened(self, round_number: int, now: float) -> Timeline:
        timeline = self._ended(lambda span: span.round != round_number, now)
        if any(mark == round_number for mark, _ in self.marks):
            return timeline
        return replace(timeline, marks=(*self.marks, (round_number, now))[-MARKS:])

    def _ended(self, which: Callable[[Span], bool], now: float) -> Timeline:
        lanes = {name: _closed(lane, which, now) for name, lane in self.lanes.items()}
        return replace(self, lanes=lanes)

    def _worked(self, info: Info, now: float) -> Timeline:
        kind = _KINDS.get(info.state)
        lane = self.lanes.get(info.board, ())
        if info.state == "failed":
            lane = _closed(lane, lambda span: span.client == info.client, now, cut=True)
        elif kind is not None:
            task = (info.client, info.round, kind)
            same = [s for s in lane if (s.client, s.round, s.kind) == task]
            if info.state == "trained":
                begun = round(now - (info.seconds or 0.0), 2)
                lane = lane if same else (*lane, Span(*task, begun))
                lane = _closed(lane, lambda s: s.client == info.client and s.kind == kind, now)
            elif not same or same[-1].cut:
                lane = (*lane, Span(*task, now))
        return replace(self, lanes={**self.lanes, info.board: lane[-SPANS:]})


def _is_test(span: Span, client_id: int) -> bool:
    return span.kind == "test" and span.client == client_id


def _closed(
    lane: tuple[Span, ...], which: Callable[[Span], bool], now: float, *, cut: bool = False
) -> tuple[Span, ...]:
    """A lane in which these open spans have ended; the same object if there are none."""
    if not any(span.end is None and which(span) for span in lane):
        return lane
    return tuple(
        replace(span, end=max(span.start, now), cut=cut)
        if span.end is None and which(span)
        else span
        for span in lane
    )
