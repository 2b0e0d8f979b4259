"""PURE: a parsed fleet file becomes a `Fleet`, or an error that names the place and the cure.

seed = 1
[[group]]
name = "kitchen"              # boards kitchen-1, kitchen-2, ...
boards = 40
board = "raspberry-pi-4"      # a profile; [group.hardware] replaces single numbers of it
link = "home-wifi"            # a profile; so does [group.network]
[group.hardware]
samples_per_second = 900.0
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from common.config import Section
from common.errors import ConfigError
from fl_server.fleet.kinds import Fleet, FleetBoard, Group, Hardware, Network, Presence
from fl_server.fleet.profiles import BOARDS, LINKS

SPEEDS = ("samples_per_second", "relative", "gflops")
# of the peak in Linpack (float64), what one training process reaches with small batches of
# float32: twice as many operations, a tenth of the peak. An assumption.
EFFICIENCY = 0.2


def parse_fleet(table: dict[str, Any]) -> Fleet:
    """A parsed fleet file."""
    groups = table.get("group")
    if isinstance(groups, list) and all(isinstance(one, dict) for one in groups):
        whole = [_with_profiles(at, group) for at, group in enumerate(groups)]
        table = {**table, "group": whole}
    try:
        fleet = msgspec.convert(table, Fleet)
    except msgspec.ValidationError as error:
        raise ConfigError(_explain(str(error))) from error
    for at, group in enumerate(fleet.group):
        _check(f"group[{at}]", group, fleet)
    names = [group.name for group in fleet.group]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"two groups have the name {twice[0]!r}; give each its own")
    return fleet


def _with_profiles(at: int, group: dict[str, Any]) -> dict[str, Any]:
    group = dict(group)
    for key, section, profiles in (
        ("board", "hardware", BOARDS),
        ("link", "network", LINKS),
    ):
        if key not in group:
            continue
        name, own = group.pop(key), group.get(section, {})
        known: Mapping[str, Section] = profiles
        if name not in known:
            raise ConfigError(
                f"group[{at}].{key} is {name!r}; expected one of {', '.join(known)}"
                f"{_near(str(name), known)}"
            )
        profile: dict[str, Any] = msgspec.to_builtins(known[name])
        if isinstance(own, dict):
            if any(speed in own for speed in SPEEDS):
                profile = {k: v for k, v in profile.items() if k not in SPEEDS}
            group[section] = {**profile, **own}
    return group


def _check(place: str, group: Group, fleet: Fleet) -> None:
    hardware = group.hardware
    given = [name for name in SPEEDS if getattr(hardware, name)]
    if len(given) != 1:
        found = "none is" if not given else f"{' and '.join(given)} are"
        raise ConfigError(
            f"{place}.hardware: exactly one of {', '.join(SPEEDS)} says how fast the board is; "
            f"{found} given (or name a board: {', '.join(BOARDS)})"
        )
    if hardware.relative and not fleet.machine:
        raise ConfigError(
            f"{place}.hardware.relative is {hardware.relative:g}, but the file has no machine, "
            "the samples per second of this machine; 'fl-server fleet measure RUN' of a run "
            "made here finds it"
        )
    if group.workers > hardware.cores:
        raise ConfigError(
            f"{place}.workers is {group.workers}, but the board has {hardware.cores} cores"
        )
    network, presence = group.network, group.presence
    if bool(network.outage_every) != bool(network.outage_seconds):
        raise ConfigError(
            f"{place}.network: outage_every and outage_seconds belong together; give both"
        )
    if bool(presence.on) != bool(presence.off):
        raise ConfigError(f"{place}.presence: on and off belong together; give both")
    traces = (("network.outages", network.outages), ("presence.away", presence.away))
    for name, spans in traces:
        last = 0.0
        for start, end in spans:
            if not last <= start < end:
                raise ConfigError(
                    f"{place}.{name} has [{start:g}, {end:g}]; expected spans that end after "
                    "they begin, one after another"
                )
            last = end


def speed_of(fleet: Fleet, group: Group, flops: float) -> float:
    """Training samples per second of one process; `flops` are a sample's operations."""
    hardware = group.hardware
    if hardware.samples_per_second:
        return hardware.samples_per_second
    if hardware.relative:
        return hardware.relative * fleet.machine
    return hardware.gflops * 1e9 * EFFICIENCY / hardware.cores / max(flops, 1.0)


def needs_flops(fleet: Fleet) -> bool:
    """Whether a speed follows from the operations that a sample of the model takes."""
    return any(group.hardware.gflops for group in fleet.group)


def boards_of(fleet: Fleet, clients: Sequence[int]) -> tuple[FleetBoard, ...]:
    """The boards with their clients: neighbours together, sizes as equal as possible."""
    groups = [(group, at + 1) for group in fleet.group for at in range(group.boards)]
    if len(groups) > len(clients):
        raise ConfigError(
            f"the fleet has {len(groups)} boards, but only {len(clients)} clients take part; "
            "every board needs one: raise data.clients, or lower `boards` of a group"
        )
    cuts = [len(clients) * at // len(groups) for at in range(len(groups) + 1)]
    return tuple(
        FleetBoard(f"{group.name}-{place}", at, tuple(clients[cuts[at] : cuts[at + 1]]), group)
        for at, (group, place) in enumerate(groups)
    )


def _explain(error: str) -> str:
    what, _, place = error.partition(" - at `$")
    message = f"{place.strip('.`') or 'fleet file'}: {what.replace('`', '')}"
    if "unknown field" in what:
        word = what.split("`")[1]
        known = {"board", "link"}.union(
            *(kind.__struct_fields__ for kind in (Fleet, Group, Hardware, Network, Presence))
        )
        message += _near(word, dict.fromkeys(known))
    return message


def _near(word: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(word, sorted(known), 1, 0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
