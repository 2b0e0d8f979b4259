"""PURE: what somebody wants a run to do, as an event of the round machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Wish: TypeAlias = Literal["run", "pause", "stop"]
Standing: TypeAlias = Literal["", "pausing", "paused", "stopping"]


@dataclass(frozen=True, slots=True)
class Wished:
    """The run shall go on, pause between two rounds, or stop after the open one."""

    wish: Wish
    now: float
