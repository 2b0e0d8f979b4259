"""PURE: the facts that are kept of a run, as who watched its topics would have had them.

events.jsonl has no presence of boards and no messages about clients. Both follow from what it
has: who connected, was lost and came back, and who trained which client.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from common.wire.messages import Info
from fl_server.watch import facts
from fl_server.watch.facts import Fact
from fl_server.watch.limits import MOST_CLIENTS


@dataclass(slots=True)
class Replay:
    """What later facts are completed with."""

    run: str
    _clients: dict[str, set[int]] = field(default_factory=dict)
    _lost: set[str] = field(default_factory=set)

    def completed(self, fact: Fact) -> Iterator[Fact]:
        """A kept fact, with those that were only shown before it."""
        match fact:
            case facts.BoardConnected(board=board) | facts.Back(board=board) if board:
                self._lost.discard(board)
                yield self._presence(board, fact.time)
            case facts.Lost(board=board) if board:
                self._lost.add(board)
                yield self._presence(board, fact.time)
            case facts.Trained():
                yield from self._trained(fact)
            case _:
                pass
        yield fact

    def _presence(self, board: str, now: float) -> facts.Presence:
        clients = tuple(sorted(self._clients.setdefault(board, set())))
        return facts.Presence(board, board not in self._lost, clients, time=now)

    def _trained(self, fact: facts.Trained) -> Iterator[Fact]:
        mine = self._clients.setdefault(fact.board, set())
        if fact.client not in mine and sum(map(len, self._clients.values())) < MOST_CLIENTS:
            for others in self._clients.values():
                others.discard(fact.client)
            mine.add(fact.client)
            self._lost.discard(fact.board)
            yield self._presence(fact.board, fact.time)
        info = Info(
            run=self.run,
            round=fact.round,
            client=fact.client,
            board=fact.board,
            state="trained",
            seconds=fact.seconds,
            samples=fact.samples,
        )
        yield facts.Info(info, time=fact.time)
