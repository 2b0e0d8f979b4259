"""PURE: what somebody wants a run to do, as an event of the round machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Request: TypeAlias = Literal["run", "pause", "stop"]
ControlState: TypeAlias = Literal["", "pausing", "paused", "stopping"]


@dataclass(frozen=True, slots=True)
class Requested:
    """The run shall go on, pause between two rounds, or stop after the open one."""

    request: Request
    now: float
