"""PURE: what the coordinator knows of a board, or of a site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Board:
    """What is known of a board.

    `seen_in` is the last round in which it gave a sign of life, `last_message` when its last
    message came. Of a site, `away` has since when the own boards of some clients are lost.
    """

    instance: str
    session: tuple[int, int]
    clients: tuple[int, ...]
    lost_at: float | None = None
    seen_in: int = 0
    last_message: float = 0.0
    away: Mapping[int, float] = field(default_factory=dict)

    def lost_since(self, client: int) -> float | None:
        """Since when the board of a client is lost; None if it is there."""
        return self.lost_at if self.lost_at is not None else self.away.get(client)
