"""The options that a site's relay is started with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Which site this is, its clients, and where its state is kept."""

    site: str
    clients: tuple[int, ...]
    state: Path
    federation: str = "fl"  # on the site's broker
    uplink_federation: str = "fl"  # on the coordinator's
