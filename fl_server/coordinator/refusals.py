"""What the coordinator does not take from boards: counted per board, said in moderation."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from common.errors import ProtocolError
from common.wire.drop_counter import OTHERS, DropCounter
from common.wire.topics import CONNECTED, parse
from fl_server.coordinator.rate_limit import RateLimit

REPORT_SECONDS = 5.0
REJECTED = "rejected update"


class Tell(Protocol):
    """How a fact is told (see `Conductor.tell`)."""

    def __call__(self, kind: str, *, keep: bool = True, **fields: Any) -> None:  # noqa: ANN401
        """Tell it."""


class Refusals:
    """Counts of what was dropped or rejected, and complaints, of every board."""

    def __init__(self, federation: str, tell: Tell, owner: Callable[[int], str | None]) -> None:
        self._federation = federation
        self._tell = tell
        self._owner = owner
        self._dropped = DropCounter()
        self._problems: dict[str, str] = {}
        self._ration = RateLimit()
        self._late: set[tuple[int, int]] = set()
        self._unheard: dict[str, int] = {}
        self._reported: dict[str, int] = {}
        self._reported_at = 0.0

    def drop(self, topic: str, size: int, reason: str) -> None:
        """A message that cannot be used."""
        kind = f"{self._name(topic)}: {reason.split(':')[0]}"
        if self._dropped.note(kind, topic, size, reason, sender=self._sender(topic)):
            self._tell("message_dropped", topic=topic[:200], size=size, text=reason[:500])

    def note_unheard(self, counts: dict[str, int]) -> None:
        """Messages the link did not even hand over: topic -> how many until now."""
        for topic, count in counts.items():
            new = count - self._unheard.get(topic, 0)
            if new:
                kind = f"{self._name(topic)}: not sent reliably"
                self._dropped.add(kind, self._sender(topic), new)
        self._unheard = counts

    def reject(self, client: int) -> None:
        """An update of the right task that is unusable."""
        self._dropped.add(REJECTED, self._owner(client) or f"client {client}", 1)

    def late(self, client: int, round_number: int) -> None:
        """An update for a round that is closed; said once."""
        if (client, round_number) not in self._late:
            self._late.add((client, round_number))
            text = f"late update of client {client} rejected: round {round_number} is closed"
            self._tell("late", text=text, client=client, round=round_number)

    def problem(self, board: str, text: str, *, about: str = "") -> None:
        """Say (once) why a board cannot take part; `about` keeps its complaints apart."""
        key = f"{board} {about}"
        if self._problems.get(key, "") == text:
            return
        if text and not self._ration.allows(board, time.monotonic()):
            self._dropped.add("connected: too many complaints", board, 1)
            return
        self._problems[key] = text
        if text:
            self._tell("problem", board=board, text=f"board {board}: {text}")

    def report(self, now: float) -> None:
        """Tell whoever watches of boards with new refusals, now and then."""
        if now - self._reported_at >= REPORT_SECONDS:
            self._reported_at = now
            self._tell_counts(keep=False)

    def conclude(self) -> None:
        """The totals, for the event log."""
        self._reported.clear()
        self._tell_counts(keep=True)

    def _tell_counts(self, *, keep: bool) -> None:
        for board, kinds in self._dropped.by_sender().items():
            count = sum(kinds.values())
            if self._reported.get(board) != count:
                self._reported[board] = count
                self._tell("refused", keep=keep, board=board, count=count, kinds=kinds)

    def _name(self, topic: str) -> str:
        try:
            return parse(self._federation, topic)[0].name
        except ProtocolError:
            return "no topic of ours"

    def _sender(self, topic: str) -> str:
        """The board that the broker lets publish on a topic."""
        try:
            row, last = parse(self._federation, topic)
        except ProtocolError:
            return OTHERS
        if row is CONNECTED:
            return last[:64]
        if row.source != "board" or not last.isdecimal() or len(last) > 9:
            return OTHERS
        return self._owner(int(last)) or f"client {int(last)}"
