"""Any message, chunk and arrays, and damage to them, for the tests of `common.wire`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import msgspec
import numpy as np
from hypothesis import strategies as st

from common.arrays import Array
from common.errors import ProtocolError
from common.privacy.rules import (
    SEALED_BYTES,
    Keys,
    RevealedShares,
    RoundKeys,
    SealedShares,
)
from common.privacy.shamir import SHARE_BYTES
from common.texts import printable
from common.wire.chunks import cut
from common.wire.messages import (
    PROTOCOL,
    Chunk,
    ClientMetrics,
    Connected,
    CurrentRound,
    Info,
    SecureRound,
    Selected,
    TrainDetail,
    TrainEnd,
    Wire,
)
from common.wire.tensors import Member, ModelMeta, SumMeta, UpdateMeta
from tests.some_sums import counted

naturals = st.integers(0, 10**9)
epochs = st.integers(0, 10**6)
names = st.from_regex(r"[A-Za-z0-9@][A-Za-z0-9_.+-]{0,119}", fullmatch=True)
texts = st.text(st.characters(codec="utf-8"), max_size=200).map(printable)
numbers = st.floats(-1e30, 1e30)
seconds = st.floats(0, 1e9)
id_lists = st.lists(naturals, max_size=8).map(tuple)
json_values = st.recursive(
    st.none() | st.booleans() | naturals | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
counts = st.tuples(naturals, naturals).map(lambda pair: counted(min(pair), max(*pair, 1)))


def bytes_of(size: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=size, max_size=size)


round_keys = st.builds(Keys, *[bytes_of(32)] * 3)
secrets = st.one_of(
    st.builds(RoundKeys, keys=round_keys),
    st.builds(
        SealedShares,
        sealed=st.dictionaries(naturals, bytes_of(SEALED_BYTES), max_size=3),
    ),
    st.builds(
        RevealedShares, shares=st.dictionaries(naturals, bytes_of(SHARE_BYTES), max_size=3)
    ),
)

MESSAGES: dict[type[Wire], st.SearchStrategy[Wire]] = {
    TrainDetail: st.builds(
        TrainDetail,
        protocol=st.just(PROTOCOL),
        version=names,
        run=names,
        experiment=json_values.map(lambda value: msgspec.Raw(msgspec.json.encode(value))),
    ),
    Connected: st.builds(
        Connected,
        protocol=st.just(PROTOCOL),
        version=names,
        board=names,
        instance=names,
        session=st.tuples(naturals, naturals),
        connected=st.booleans(),
        settled=st.booleans(),
        since=seconds,
        clients=id_lists,
        host=texts,
        workers=naturals,
        problem=texts,
        away=id_lists,
    ),
    Info: st.builds(
        Info,
        run=names,
        round=naturals,
        client=naturals,
        board=names,
        state=st.sampled_from(["missing", "training", "trained", "testing", "secret"]),
        secret=st.none() | secrets,
        epoch=epochs,
        epochs=epochs,
        loss=st.none() | numbers,
        seconds=st.none() | seconds,
        bytes=naturals,
        samples=naturals,
        problem=texts,
    ),
    CurrentRound: st.builds(
        CurrentRound,
        run=names,
        round=naturals,
        incarnation=naturals,
        safe=id_lists,
        measured=id_lists,
        accepted=st.dictionaries(naturals, naturals, max_size=5),
        step=st.sampled_from(["", "keys", "shares", "updates", "opening"]),
        answered=id_lists,
    ),
    SecureRound: st.builds(
        SecureRound,
        run=names,
        round=naturals,
        client=naturals,
        threshold=naturals,
        members=st.dictionaries(naturals, round_keys, max_size=3),
        sealed=st.dictionaries(naturals, bytes_of(SEALED_BYTES), max_size=3),
        survivors=id_lists,
    ),
    Selected: st.builds(
        Selected,
        run=names,
        round=naturals,
        clients=id_lists,
        testers=id_lists,
        started=st.dictionaries(naturals, naturals, max_size=3),
    ),
    ClientMetrics: st.builds(
        ClientMetrics,
        run=names,
        round=naturals,
        client=naturals,
        own=st.dictionaries(st.sampled_from(["G", "L1", "L2"]), counts),
    ),
    TrainEnd: st.builds(TrainEnd, run=names, reason=texts),
}
KINDS = st.sampled_from(sorted(MESSAGES, key=lambda kind: kind.__name__))


@st.composite
def messages(draw: st.DrawFn) -> Wire:
    return draw(MESSAGES[draw(KINDS)])


@st.composite
def chunks(draw: st.DrawFn) -> Chunk:
    blob = draw(st.binary(max_size=60))
    client = draw(st.none() | naturals)
    return next(cut(blob, run=draw(names), round_number=draw(naturals), client=client))


def some_arrays(shapes: list[tuple[int, ...]], seed: int) -> dict[str, Array]:
    """Arrays of any bits: also NaNs with a payload, infinities and denormal numbers."""
    rng = np.random.default_rng(seed)
    return {
        f"base.{number}.weight": np.frombuffer(
            rng.bytes(4 * int(np.prod(shape))), np.float32
        ).reshape(shape)
        for number, shape in enumerate(shapes)
    }


shapes_of_any_kind = st.lists(st.lists(st.integers(0, 5), max_size=4).map(tuple), max_size=5)
arrays_of_any_kind = st.builds(some_arrays, shapes_of_any_kind, st.integers(0, 2**32))
MODEL = ModelMeta(run="r", round=3)
UPDATE = UpdateMeta(
    run="r", round=3, client=7, samples=9, steps=2, weights={"base": 9.0}, loss=0.5
)
SUM = SumMeta(
    run="r",
    round=3,
    client=7,
    members=(
        Member(client=7, samples=9, steps=2, weights={"base": 9.0}, loss=0.5),
        Member(client=8, samples=1, steps=0, weights={}, loss=None, values={"x": -1.0}),
    ),
)


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """The same bytes with one thing changed: a byte, a cut, something appended or put in."""
    place = draw(st.integers(0, max(len(data) - 1, 0)))
    match draw(st.sampled_from(["change", "cut", "append", "insert", "delete"])):
        case "change" if data:
            other = data[place] ^ draw(st.integers(1, 255))
            return data[:place] + bytes([other]) + data[place + 1 :]
        case "cut":
            return data[:place]
        case "append":
            return data + draw(st.binary(min_size=1, max_size=9))
        case "insert":
            return data[:place] + draw(st.binary(min_size=1, max_size=9)) + data[place:]
        case _:
            return data[:place] + data[place + 1 :]


def only_protocol_errors(read: Callable[[], object]) -> None:
    with contextlib.suppress(ProtocolError):
        read()
