"""The attacks: what a thief sends in the place of an honest message."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np

from common.wire.messages import Chunk, ClientMetrics, Info, Message
from common.wire.topics import Packet, packet
from tests.attacks.forging import (
    Entry,
    Forge,
    forged_blob,
    json_of,
    update_in,
    with_blob,
    with_fields,
    with_meta,
)


def honestly(message: Message) -> list[Packet]:
    """What the real daemon sends."""
    return [packet("fl", message)]


def not_finite(message: Message) -> Iterable[Packet]:
    if not isinstance(message, Chunk):
        return honestly(message)
    arrays, meta = update_in(message)
    broken = {name: np.full_like(array, np.nan) for name, array in arrays.items()}
    return with_blob(message, forged_blob(broken, json_of(meta)))


def enormous_shape(message: Message) -> Iterable[Packet]:
    if not isinstance(message, Chunk):
        return honestly(message)
    _, meta = update_in(message)
    many = 10**4300 - 1

    def twist(entries: dict[str, Entry]) -> None:
        entries["x"] = {"dtype": "U8", "shape": [many], "data_offsets": [0, many]}

    arrays = {"x": np.zeros(1, np.uint8)}
    return with_blob(message, forged_blob(arrays, json_of(meta), twist=twist))


def weighing(weight: float) -> Forge:
    def forge(message: Message) -> Iterable[Packet]:
        if not isinstance(message, Chunk):
            return honestly(message)
        return with_meta(message, weights={"base": weight, "head": weight})

    return forge


def many_values(message: Message) -> Iterable[Packet]:
    if not isinstance(message, Chunk):
        return honestly(message)
    return with_meta(message, values={f"{at:064d}": 1.0 for at in range(4000)})


def stolen_model(message: Message) -> Iterable[Packet]:
    """Values that are finite, but whose sums are not."""
    if not isinstance(message, Chunk):
        return honestly(message)
    arrays, meta = update_in(message)
    huge = {name: np.full_like(array, 3e38) for name, array in arrays.items()}
    return with_blob(message, forged_blob(huge, json_of(meta)))


def digits_of_counts(message: Message) -> Iterable[Packet]:
    if not isinstance(message, ClientMetrics):
        return honestly(message)
    nines = b"9" * 4300
    sums = b'{"G":{"samples":%b,"sums":{"correct":[%b],"loss":[1]}}}' % (nines, nines)
    return [with_fields(message, {"own": sums})] * 3


def counting(total: int) -> Forge:
    def forge(message: Message) -> Iterable[Packet]:
        if not isinstance(message, ClientMetrics):
            return honestly(message)
        sums = {"correct": [total], "loss": [total]}
        tests = json.dumps({s: {"samples": total, "sums": sums} for s in ("G", "L1")})
        return [with_fields(message, {"own": tests.encode()})]

    return forge


def summing(**sums: str) -> Forge:
    """Tests with these sums (JSON) besides, or instead of, those of an honest client."""

    def forge(message: Message) -> Iterable[Packet]:
        if not isinstance(message, ClientMetrics):
            return honestly(message)
        named = {"correct": "[1]", "loss": "[1]", **sums}
        inner = ",".join(f'"{name}":{numbers}' for name, numbers in named.items())
        tests = f'{{"samples":{message.own["G"].samples},"sums":{{{inner}}}}}'
        return [with_fields(message, {"own": f'{{"G":{tests},"L1":{tests}}}'.encode()})]

    return forge


def info_with(name: str, value: str) -> Forge:
    def forge(message: Message) -> Iterable[Packet]:
        if not isinstance(message, Info):
            return honestly(message)
        return [*[with_fields(message, {name: value.encode()})] * 3, *honestly(message)]

    return forge
