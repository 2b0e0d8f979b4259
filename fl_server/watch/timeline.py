"""PURE: who trained and tested when: a strip of spans per board, from the facts of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

SPANS = 80  # per board
MARKS = 40  # rounds

Kind = Literal["train", "test"]
_KINDS: dict[str, Kind] = {"training": "train", "trained": "train", "testing": "test"}


@dataclass(frozen=True, slots=True)
class Span:
    """One client's work; open as long as it has no end. `cut`: the board was lost meanwhile."""

    client: int
    round: int
    kind: Kind
    start: float
    end: float | None = None
    cut: bool = False


Lanes = Mapping[str, tuple[Span, ...]]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The last spans of every board, and when each of the last rounds began."""

    lanes: Lanes = field(default_factory=dict)
    marks: tuple[tuple[int, float], ...] = ()

    def after(self, fact: Mapping[str, Any]) -> Timeline:
        """The timeline once this fact is known."""
        match fact["event"]:
            case "info":
                return self._worked(fact)
            case "tested":
                return self._ended(lambda span: _is_test(span, fact), fact["time"])
            case "presence" if not fact["connected"]:
                lane = self.lanes.get(fact["board"], ())
                lost = _closed(lane, lambda _: True, fact["time"], cut=True)
                return replace(self, lanes={**self.lanes, fact["board"]: lost})
            case "round_opened":
                return self._opened(fact)
            case "finished":
                return self._ended(lambda _: True, fact["time"])
            case _:
                return self

    def _opened(self, fact: Mapping[str, Any]) -> Timeline:
        number, now = fact["round"], fact["time"]
        timeline = self._ended(lambda span: span.round != number, now)
        if any(mark == number for mark, _ in self.marks):
            return timeline
        return replace(timeline, marks=(*self.marks, (number, now))[-MARKS:])

    def _ended(self, which: Callable[[Span], bool], now: float) -> Timeline:
        lanes = {name: _closed(lane, which, now) for name, lane in self.lanes.items()}
        return replace(self, lanes=lanes)

    def _worked(self, fact: Mapping[str, Any]) -> Timeline:
        kind, now = _KINDS.get(fact["state"]), fact["time"]
        lane = self.lanes.get(fact["board"], ())
        client, number = fact["client"], fact.get("round", 0)
        if fact["state"] == "failed":
            lane = _closed(lane, lambda span: span.client == client, now, cut=True)
        elif kind is not None:
            same = [s for s in lane if (s.client, s.round, s.kind) == (client, number, kind)]
            if fact["state"] == "trained":
                begun = round(now - (fact.get("seconds") or 0.0), 2)
                lane = lane if same else (*lane, Span(client, number, kind, begun))
                lane = _closed(lane, lambda s: s.client == client and s.kind == kind, now)
            elif not same or same[-1].cut:
                lane = (*lane, Span(client, number, kind, now))
        return replace(self, lanes={**self.lanes, fact["board"]: lane[-SPANS:]})


def _is_test(span: Span, fact: Mapping[str, Any]) -> bool:
    return span.kind == "test" and span.client == fact["client"]


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
