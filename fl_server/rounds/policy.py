"""PURE: the settings of an experiment that decide about rounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The experiment's settings of rounds."""

    run: str
    seed: int
    rounds: int
    participants: tuple[int, ...]
    start_with: int
    rate: float = 1.0
    buffer: int = 0  # if not 0: rounds are buffers of so many updates (see `buffered.py`)
    max_staleness: int = 10
    rule: str = "random"  # by which clients are selected (see `rules.py`)
    extra: int = 0  # so many more are selected than count
    chances: Mapping[int, float] = field(default_factory=dict)
    grace: float = math.inf
    deadline: float = math.inf
    min_updates: int = 1
    evaluate_every: int = 1
    threshold: float = 0.0  # the share of clients that can open a secured round; 0: none is
    local: bool = False  # whether boards have the data: round 1 waits until they reported it
