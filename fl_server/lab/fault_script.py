"""PURE: fault scripts: what goes wrong, with whom, when; drawn from a seed, so repeatable.

seed = 7
[[fault]]                  # at a moment of the run
kind = "kill"
target = "b2"
round = 3
phase = "training"
[random]                   # and by chance
count = 20
every = [1.0, 3.0]
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from common.config import Section
from common.errors import ConfigError
from common.rng import generator

Kind: TypeAlias = Literal[
    "kill", "stop", "cut", "freeze", "slow", "duplicate", "corrupt", "wipe"
]
Phase: TypeAlias = Literal["open", "training", "update", "safe"]
TARGETS: dict[Kind, tuple[str, ...]] = {
    "kill": ("server", "broker", "board"),
    "stop": ("server", "broker", "board"),
    "cut": ("board",),
    "freeze": ("board",),
    "slow": ("board",),
    "duplicate": ("board",),
    "corrupt": ("server", "board"),
    "wipe": ("broker",),
}


class Fault(Section, frozen=True, kw_only=True):
    """One thing that goes wrong."""

    kind: Annotated[Kind, Meta(description="What goes wrong.")]
    target: Annotated[
        str, Meta(description='"server", "broker", "b1", "b2", ... or "board" (any one).')
    ] = "board"
    round: Annotated[
        int, Meta(ge=0, description="In which round; 0 = as soon as possible.")
    ] = 0
    phase: Annotated[
        Phase,
        Meta(
            description="open: the round is announced; training: a client trains; "
            "update: an update is on its way; safe: one has arrived."
        ),
    ] = "training"
    after: Annotated[float, Meta(ge=0, description="Seconds after that moment.")] = 0.0
    seconds: Annotated[float, Meta(ge=0, le=600, description="How long it lasts.")] = 1.0


class RandomFaults(Section, frozen=True, kw_only=True):
    """Faults by chance, one after another until the run ends or `count` is reached."""

    count: Annotated[int, Meta(ge=0, description="How many at most.")] = 10
    every: Annotated[
        tuple[float, float],
        Meta(description="Shortest and longest time between two, in seconds."),
    ] = (1.0, 3.0)
    seconds: Annotated[
        tuple[float, float], Meta(description="Shortest and longest duration.")
    ] = (0.0, 2.0)
    kinds: Annotated[tuple[Kind, ...], Meta(description="Of which kinds.")] = tuple(TARGETS)


class Script(Section, frozen=True, kw_only=True):
    """A whole scenario."""

    seed: Annotated[int, Meta(ge=0, description="Seed of everything drawn.")] = 1
    fault: tuple[Fault, ...] = ()
    random: RandomFaults | None = None


def parse_script(table: dict[str, Any], boards: Sequence[str]) -> Script:
    """A parsed fault file, checked against the boards there are."""
    try:
        script = msgspec.convert(table, Script)
    except msgspec.ValidationError as error:
        raise ConfigError(_explain(str(error))) from error
    for at, fault in enumerate(script.fault):
        _check(at, fault, boards)
    return script


def _explain(error: str) -> str:
    what, _, place = error.partition(" - at `$")
    message = f"{place.strip('.`') or 'fault script'}: {what}"
    if "unknown field" in what:
        word = what.split("`")[1]
        known = {*Fault.__struct_fields__, *RandomFaults.__struct_fields__, "fault", "random"}
        near = difflib.get_close_matches(word, sorted(known), 1)
        message += f"; did you mean {near[0]!r}?" if near else ""
    return message


def _check(at: int, fault: Fault, boards: Sequence[str]) -> None:
    allowed = TARGETS[fault.kind]
    names = [*allowed, *(boards if "board" in allowed else ())]
    if fault.target not in names:
        raise ConfigError(
            f"fault[{at}].target is {fault.target!r}; {fault.kind} wants {', '.join(names)}"
        )


def aimed(fault: Fault, boards: Sequence[str], seed: int, order: int) -> Fault:
    """The same fault with "board" replaced by one of the boards."""
    if fault.target != "board":
        return fault
    rng = generator(seed, "fault target", order)
    return msgspec.structs.replace(fault, target=str(rng.choice(list(boards))))


def drawn(script: Script, boards: Sequence[str]) -> Iterator[tuple[float, Fault]]:
    """The faults by chance: (seconds to wait before it, fault)."""
    chance = script.random
    if chance is None:
        return
    for order in range(chance.count):
        rng = generator(script.seed, "fault", order)
        wait = float(rng.uniform(*chance.every))
        kind: Kind = chance.kinds[int(rng.integers(len(chance.kinds)))]
        targets = TARGETS[kind]
        target = targets[int(rng.integers(len(targets)))]
        seconds = round(float(rng.uniform(*chance.seconds)), 2)
        fault = Fault(kind=kind, target=target, seconds=seconds)
        yield wait, aimed(fault, boards, script.seed, order)
