"""Small fleets for tests."""

from __future__ import annotations

from typing import Any

from fl_server.fleet.file import boards_of, parse_fleet, speed_of
from fl_server.fleet.happenings import Effort
from fl_server.fleet.kinds import Fleet
from fl_server.fleet.timeline import Timeline

MODEL = 125_000  # bytes: one second at 1 Mbit/s


def group(name: str = "a", **more: Any) -> dict[str, Any]:
    """Boards that train a hundred samples a second at 1 Mbit/s, unless said otherwise."""
    hardware = {"samples_per_second": 100.0, "idle": 1.0, "training": 5.0, "sending": 2.0}
    network = {"up": 1.0, "down": 1.0}
    return {
        "name": name,
        **more,
        "hardware": {**hardware, **more.get("hardware", {})},
        "network": {**network, **more.get("network", {})},
    }


def fleet_of(*groups: dict[str, Any], **more: Any) -> Fleet:
    """A fleet of these groups."""
    return parse_fleet({"group": list(groups), **more})


def timeline_of(fleet: Fleet, clients: int) -> Timeline:
    """Every client trains for ten seconds at 100 samples per second, and tests for one."""
    ids = range(clients)
    effort = Effort(dict.fromkeys(ids, 1000.0), dict.fromkeys(ids, 100.0), MODEL)
    speeds = {one.name: speed_of(fleet, one, 1e6) for one in fleet.group}
    return Timeline(boards_of(fleet, ids), speeds, effort, fleet.seed)
