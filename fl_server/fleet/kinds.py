"""PURE: what a fleet file says: groups of boards, their hardware, network and presence."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from common.config import Section

Share = Annotated[float, Meta(ge=0, lt=1)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Span: TypeAlias = tuple[Seconds, Seconds]
Trace: TypeAlias = Annotated[tuple[Span, ...], Meta(max_length=100_000)]
Watts = Annotated[float, Meta(ge=0, le=10_000)]
Rate = Annotated[float, Meta(gt=0, le=1e6)]


class Hardware(Section, frozen=True, kw_only=True):
    """A board: how fast it trains (one of the first three), what it draws from the wall."""

    samples_per_second: Annotated[
        float, Meta(ge=0, description="Training samples per second of one training process.")
    ] = 0.0
    relative: Annotated[
        float, Meta(ge=0, description="The same, relative to `machine` of the file.")
    ] = 0.0
    gflops: Annotated[
        float, Meta(ge=0, description="Linpack (HPL) of all cores; only an estimate.")
    ] = 0.0
    cores: Annotated[int, Meta(ge=1, le=1024, description="Cores of the processor.")] = 4
    memory: Annotated[int, Meta(ge=0, description="Megabytes; 0 = not limited.")] = 0
    idle: Annotated[Watts, Meta(description="Watts of a board that waits.")] = 0.0
    training: Annotated[Watts, Meta(description="Watts of one that trains or tests.")] = 0.0
    sending: Annotated[Watts, Meta(description="Watts of one that sends or receives.")] = 0.0


class Network(Section, frozen=True, kw_only=True):
    """A board's link: as fast as its slower part, and sometimes away."""

    up: Annotated[Rate, Meta(description="Mbit/s from the board.")] = 1000.0
    down: Annotated[Rate, Meta(description="Mbit/s to the board.")] = 1000.0
    latency: Annotated[
        float, Meta(ge=0, le=60_000, description="Milliseconds there and back, as by ping.")
    ] = 0.0
    jitter: Annotated[
        float, Meta(ge=0, le=60_000, description="Most milliseconds more on one way.")
    ] = 0.0
    loss: Annotated[
        Share, Meta(description="Share of packets lost; TCP repeats them, and slows down.")
    ] = 0.0
    outage_every: Annotated[
        Seconds, Meta(description="Mean seconds from one outage to the next; 0 = none.")
    ] = 0.0
    outage_seconds: Annotated[Seconds, Meta(description="Mean length of an outage.")] = 0.0
    outages: Annotated[
        Trace, Meta(description="Outages as [[from, to], ...] in seconds of the run.")
    ] = ()


class Presence(Section, frozen=True, kw_only=True):
    """When a board is there at all; while it is away the coordinator knows that."""

    on: Annotated[Seconds, Meta(description="Seconds there; 0 = always.")] = 0.0
    off: Annotated[Seconds, Meta(description="Seconds away after that.")] = 0.0
    away: Annotated[
        Trace, Meta(description="Absences as [[from, to], ...] in seconds of the run.")
    ] = ()


class Group(Section, frozen=True, kw_only=True):
    """Boards of one kind; they are named `<name>-1`, `<name>-2`, ..."""

    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,39}\Z")]
    boards: Annotated[int, Meta(ge=1, le=100_000)] = 1
    workers: Annotated[
        int, Meta(ge=1, le=64, description="Training processes that work side by side.")
    ] = 1
    hardware: Hardware = Hardware()
    network: Network = Network()
    presence: Presence = Presence()


class Fleet(Section, frozen=True, kw_only=True):
    """All boards; `machine` is what `relative` refers to, `seed` is of everything drawn."""

    group: Annotated[tuple[Group, ...], Meta(min_length=1)]
    seed: Annotated[int, Meta(ge=0)] = 1
    machine: Annotated[float, Meta(ge=0)] = 0.0


class FleetBoard(msgspec.Struct, frozen=True):
    """One board of a fleet, with its clients; `index` addresses what is drawn for it."""

    name: str
    index: int
    clients: tuple[int, ...]
    group: Group
