"""The options that a daemon is started with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from common.access.address import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Which board this is, where its broker is, where it keeps its state."""

    address: Address
    board: str
    clients: tuple[int, ...]
    state: Path
    federation: str = "fl"
    workers: int = 1
    memory: int | None = None  # bytes that each training process may use
    record: Path | None = None
    data: Path | None = None
    class_counts: bool = False
    code: Path | None = None
    speed: float = 0.0  # training samples per second, not more; 0: as fast as it can
