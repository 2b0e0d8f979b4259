"""What the coordinator does not take from boards: counted per board, reported in moderation."""

from __future__ import annotations

import time
from collections.abc import Callable

from common.errors import ProtocolError
from common.wire.drop_counter import OTHERS, DropCounter
from common.wire.topics import CONNECTED, parse
from fl_server.coordinator.rate_limit import RateLimit
from fl_server.watch import facts
from fl_server.watch.facts.making import board_problem

REPORT_SECONDS = 5.0
REJECTED = "rejected update"
MOST_PROBLEMS = 1000  # that are remembered: names of boards cost nothing


class Refusals:
    """Counts of what was dropped or rejected, and problems, of every board."""

    def __init__(
        self, federation: str, report: facts.Observer, owner: Callable[[int], str | None]
    ) -> None:
        self._federation = federation
        self._report = report
        self._owner = owner
        self._dropped = DropCounter()
        self._problems: dict[str, str] = {}
        self._rate_limit = RateLimit()
        self._late: set[tuple[int, int]] = set()
        self._unread: dict[str, int] = {}
        self._reported: dict[str, int] = {}
        self._reported_at = 0.0

    def drop(self, topic: str, size: int, reason: str) -> bool:
        """A message that cannot be used; True if it is the first of its kind."""
        kind = f"{self._name(topic)}: {reason.split(':')[0]}"
        first = self._dropped.note(kind, topic, size, reason, sender=self._sender(topic))
        if first:
            fact = facts.MessageDropped(topic=topic[:200], size=size, text=reason[:500])
            self._report(fact)
        return first

    def note_unread(self, counts: dict[str, int]) -> None:
        """Messages the link did not even hand over: topic -> how many until now."""
        for topic, count in counts.items():
            new = count - self._unread.get(topic, 0)
            if new:
                kind = f"{self._name(topic)}: not sent reliably, or too many at once"
                self._dropped.add(kind, self._sender(topic), new)
        self._unread = counts

    def reject(self, client: int) -> None:
        """An update of the right job that is unusable."""
        self._dropped.add(REJECTED, self._owner(client) or f"client {client}", 1)

    def late(self, client: int, round_number: int) -> None:
        """An update for a round that is closed; reported once."""
        if (client, round_number) not in self._late:
            self._late.add((client, round_number))
            text = f"late update of client {client} rejected: round {round_number} is closed"
            self._report(facts.Late(text=text, client=client, round=round_number))

    def problem(self, board: str, text: str, *, about: str = "") -> None:
        """Report once why a board cannot take part; `about` keeps its problems apart."""
        key = f"{board} {about}"
        if self._problems.get(key, "") == text:
            return
        if not text:
            del self._problems[key]
            return
        full = key not in self._problems and len(self._problems) >= MOST_PROBLEMS
        if full or not self._rate_limit.allows(board, time.monotonic()):
            self._dropped.add("connected: too many problems", board, 1)
            return
        self._problems[key] = text
        self._report(board_problem(board, text))

    def report(self, now: float) -> None:
        """Show boards with new refusals, now and then."""
        if now - self._reported_at >= REPORT_SECONDS:
            self._reported_at = now
            self._report_counts(facts.RefusedSoFar)

    def conclude(self) -> None:
        """The totals, for the event log."""
        self._reported.clear()
        self._report_counts(facts.Refused)

    def _report_counts(self, kind: type[facts.Refused]) -> None:
        for board, kinds in self._dropped.by_sender().items():
            count = sum(kinds.values())
            if self._reported.get(board) != count:
                self._reported[board] = count
                self._report(kind(board=board, count=count, kinds=kinds))

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
