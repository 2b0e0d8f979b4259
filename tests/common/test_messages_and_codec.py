from __future__ import annotations

import contextlib
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.arrays import Array, digest
from common.codec import (
    CHUNK,
    MAX_BLOB,
    MAX_FRAME,
    MAX_JSON,
    ModelMeta,
    UpdateMeta,
    blob_digest,
    check_arrays,
    cut,
    decode,
    decode_chunk,
    decode_tensors,
    encode,
    encode_chunk,
    encode_tensors,
)
from common.errors import ProtocolError, VersionError
from common.messages import (
    PROTOCOL,
    Chunk,
    ChunkHeader,
    ClientMetrics,
    Connected,
    Count,
    CurrentRound,
    Info,
    Selected,
    TrainDetail,
    TrainEnd,
    Wire,
)

naturals = st.integers(0, 2**63 - 1)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=120)
texts = st.text(st.characters(codec="utf-8"), max_size=200)
numbers = st.floats(allow_nan=False, allow_infinity=False)
id_lists = st.lists(naturals, max_size=8).map(tuple)
json_values = st.recursive(
    st.none() | st.booleans() | naturals | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
counts = st.tuples(naturals, naturals).map(
    lambda pair: Count(correct=min(pair), total=max(*pair, 1))
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
        since=numbers,
        clients=id_lists,
        host=texts,
        workers=naturals,
        problem=texts,
    ),
    Info: st.builds(
        Info,
        run=names,
        round=naturals,
        client=naturals,
        board=names,
        state=st.sampled_from(["missing", "training", "trained", "testing", "failed"]),
        epoch=naturals,
        epochs=naturals,
        loss=st.none() | numbers,
        seconds=st.none() | numbers,
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
    ),
    Selected: st.builds(
        Selected, run=names, round=naturals, clients=id_lists, testers=id_lists
    ),
    ClientMetrics: st.builds(
        ClientMetrics,
        run=names,
        round=naturals,
        client=naturals,
        counts=st.dictionaries(st.sampled_from(["G", "L1", "L2"]), counts),
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
    return next(cut(blob, run=draw(names), number=draw(naturals), client=client))


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


@given(messages())
def test_any_message_comes_back_as_it_was(message: Wire) -> None:
    assert decode(encode(message), type(message)) == message


@given(messages(), st.data())
def test_a_damaged_message_is_refused_or_a_message(message: Wire, data: st.DataObject) -> None:
    broken = data.draw(damaged(encode(message)))
    only_protocol_errors(lambda: decode(broken, type(message)))


@given(st.binary(max_size=200) | json_values.map(msgspec.json.encode), KINDS)
@example(b"", TrainEnd)
@example(b"null", Connected)
@example(b"\xff\xfe", TrainEnd)
@example(b'{"run":"\xff","reason":""}', TrainEnd)
@example(b'{"run":"\\ud800","reason":""}', TrainEnd)
@example(b"[" * 200_000, TrainEnd)
@example(b'{"run":' * 60_000, TrainEnd)
@example(b'{"protocol":' + b"9" * 5000 + b"}", Connected)
@example(b'{"protocol":1,"run":' + b"[" * 100_000 + b"]" * 100_000 + b"}", TrainDetail)
def test_any_bytes_are_refused_or_a_message(junk: bytes, kind: type[Wire]) -> None:
    only_protocol_errors(lambda: decode(junk, kind))


@pytest.mark.parametrize(
    "field",
    [
        '"loss":NaN',
        '"loss":1e999',
        '"loss":"0"',
        '"round":-1',
        '"round":1.0',
        '"round":true',
        '"odd":1',
        '"state":"asleep"',
        '"client":null',
        '"board":""',
        '"bytes":-1',
    ],
)
def test_a_field_of_the_wrong_kind_is_refused(field: str) -> None:
    good = encode(Info(run="r", round=1, client=2, board="b", state="training")).decode()
    assert decode(good.encode(), Info).round == 1
    with pytest.raises(ProtocolError, match="not a valid Info"):
        decode(f"{good[:-1]},{field}}}".encode(), Info)


def test_more_correct_answers_than_samples_are_refused() -> None:
    good = b'{"run":"r","round":1,"client":2,"counts":{"G":{"correct":3,"total":3}}}'
    assert decode(good, ClientMetrics).counts["G"] == Count(correct=3, total=3)
    with pytest.raises(ProtocolError, match="more correct answers than test samples"):
        decode(good.replace(b'"correct":3', b'"correct":4'), ClientMetrics)
    with pytest.raises(ProtocolError, match="not a valid ClientMetrics"):
        decode(good.replace(b'"G"', b'"L9"'), ClientMetrics)


@pytest.mark.parametrize("kind", [Connected, TrainDetail])
def test_another_protocol_version_is_named_with_ours_whatever_else_is_in_it(
    kind: type[Wire],
) -> None:
    with pytest.raises(VersionError) as caught:
        decode(b'{"protocol":7,"version":"9.9.1","new_field":[1]}', kind)
    assert "speaks protocol 7 (fedbed 9.9.1), this side speaks 1" in str(caught.value)


def test_a_greeting_without_a_protocol_version_is_refused() -> None:
    with pytest.raises(ProtocolError, match="no protocol version"):
        decode(b'{"version":"9.9.1"}', Connected)


def test_an_experiment_that_nobody_could_read_is_refused_before_it_is_passed_on() -> None:
    detail = '{"protocol":1,"version":"1","run":"r","experiment":{"a":"?"}}'
    assert decode(detail.encode(), TrainDetail).run == "r"
    for experiment in (b'{"a":"\xff"}', b"[" * 50_000 + b"]" * 50_000, b'{"a":', b"NaN"):
        with pytest.raises(ProtocolError):
            decode(detail.encode().replace(b'{"a":"?"}', experiment), TrainDetail)


def test_json_above_the_size_bound_is_not_even_parsed() -> None:
    message = encode(TrainEnd(run="r", reason="done"))
    assert decode(message + b" " * (MAX_JSON - len(message)), TrainEnd).run == "r"
    with pytest.raises(ProtocolError, match=f"expected at most {MAX_JSON}"):
        decode(message + b" " * (MAX_JSON + 1 - len(message)), TrainEnd)


@given(chunks())
def test_any_chunk_comes_back_as_it_was(chunk: Chunk) -> None:
    back = decode_chunk(encode_chunk(chunk))
    assert (back.header, back.body) == (chunk.header, chunk.body)


@given(chunks(), st.data())
def test_a_damaged_chunk_is_refused_or_a_chunk(chunk: Chunk, data: st.DataObject) -> None:
    broken = data.draw(damaged(encode_chunk(chunk)))
    only_protocol_errors(lambda: decode_chunk(broken))


@given(st.binary(max_size=100) | st.binary(max_size=100).map(lambda junk: b"FBC1" + junk))
@example(b"FBC1\xff\xff\xff\xff")
@example(b"FBC1\x00\x00\x10\x00" + b"[" * 4096)
@example(b"FBC1\x00\x00\x00\x02\xff\xff")
def test_any_bytes_are_refused_or_a_chunk(junk: bytes) -> None:
    only_protocol_errors(lambda: decode_chunk(junk))


def frame(header: ChunkHeader, body: bytes) -> bytes:
    return encode_chunk(Chunk(header, body))


def test_a_chunk_whose_numbers_do_not_agree_is_refused() -> None:
    good = ChunkHeader(
        run="r",
        round=1,
        client=None,
        down=True,
        part=1,
        parts=2,
        size=CHUNK + 3,
        digest="0" * 32,
    )
    assert decode_chunk(frame(good, b"abc")).header == good
    wrong: list[tuple[dict[str, object], bytes]] = [
        ({}, b"ab"),
        ({}, b"abcd"),
        ({"part": 0}, b"abc"),
        ({"part": 2}, b""),
        ({"parts": 3}, b"abc"),
        ({"parts": 1, "part": 0}, b"abc"),
        ({"size": CHUNK}, b""),
        ({"size": MAX_BLOB + 1, "parts": 1025}, b"x" * CHUNK),
        ({"size": 2**60}, b"abc"),
        ({"digest": "0" * 31}, b"abc"),
        ({"digest": "0" * 32 + "\n"}, b"abc"),
        ({"digest": "Z" * 32}, b"abc"),
        ({"parts": 0}, b"abc"),
        ({"run": ""}, b"abc"),
    ]
    for change, body in wrong:
        with pytest.raises(ProtocolError):
            decode_chunk(frame(msgspec.structs.replace(good, **change), body))


def test_a_chunk_above_the_size_bound_is_refused() -> None:
    with pytest.raises(ProtocolError, match=f"expected at most {MAX_FRAME}"):
        decode_chunk(b"FBC1" + bytes(MAX_FRAME - 3))


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 5])
def test_the_parts_of_a_blob_make_the_blob_and_each_fits_into_a_packet(size: int) -> None:
    blob = np.random.default_rng(size).bytes(size)
    frames = [encode_chunk(c) for c in cut(blob, run="r" * 120, number=1, client=999_999)]
    assert max(len(f) for f in frames) <= MAX_FRAME
    parts = [decode_chunk(f) for f in frames]
    assert b"".join(part.body for part in parts) == blob
    assert {part.header.digest for part in parts} == {blob_digest(blob)}
    assert [part.header.part for part in parts] == list(range(parts[0].header.parts))


@given(arrays_of_any_kind)
@example({"base.a": np.array(np.float32(-0.0)), "base.b": np.zeros((0, 3), np.float32)})
@example({"base.t": np.arange(6, dtype=np.float32).reshape(2, 3).T})
@example({"base.i": np.arange(3, dtype=np.int64), "base.h": np.ones(3, np.float16)})
@example({})
def test_any_arrays_come_back_bit_for_bit_and_read_only(arrays: dict[str, Array]) -> None:
    back, meta = decode_tensors(encode_tensors(arrays, UPDATE), UpdateMeta)
    assert meta == UPDATE
    assert digest(back) == digest(arrays)
    assert {name: (a.shape, a.dtype) for name, a in back.items()} == {
        name: (a.shape, a.dtype) for name, a in arrays.items()
    }
    assert not any(array.flags.writeable for array in back.values())


@given(arrays_of_any_kind, st.data())
def test_the_same_arrays_give_the_same_bytes_in_whatever_order_they_are_named(
    arrays: dict[str, Array], data: st.DataObject
) -> None:
    turned = dict(data.draw(st.permutations(list(arrays.items()))))
    assert encode_tensors(arrays, MODEL) == encode_tensors(turned, MODEL)


SAME_BYTES = """
import numpy as np
from common.codec import ModelMeta, UpdateMeta, blob_digest, encode_tensors
arrays = {f"{part}.{n}.w": np.full((n, 3), n, np.float32) for part in ("base", "head")
          for n in range(9)}
weights = {"base": 1.5, "head": 2.5}
update = UpdateMeta(run="r", round=1, client=2, samples=3, steps=4, weights=weights, loss=0.1)
print(blob_digest(encode_tensors(arrays, update)))
"""


def test_two_processes_with_other_hash_seeds_give_the_same_bytes() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", SAME_BYTES],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


@given(arrays_of_any_kind, st.data())
def test_a_damaged_blob_is_refused_or_a_blob(
    arrays: dict[str, Array], data: st.DataObject
) -> None:
    broken = data.draw(damaged(encode_tensors(arrays, MODEL)))
    only_protocol_errors(lambda: decode_tensors(broken, ModelMeta))


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_a_blob(junk: bytes) -> None:
    only_protocol_errors(lambda: decode_tensors(junk, ModelMeta))
    only_protocol_errors(lambda: decode_tensors(struct.pack("<Q", len(junk)) + junk, ModelMeta))


def blob_with(header: bytes, body: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + body


def stamped(
    tensor: str, encoding: str = "float32", meta: str = '{"run":"r","round":1}'
) -> bytes:
    stamp = json.dumps(f'{{"encoding":"{encoding}","meta":{meta}}}')
    return f'{{"__metadata__":{{"fedbed":{stamp}}}{tensor}}}'.encode()


def one(dtype: str, shape: str, start: int, end: int) -> str:
    return f',"a":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{start},{end}]}}'


def test_a_blob_written_by_hand_is_read() -> None:
    blob = blob_with(stamped(one("F32", "[1,1]", 0, 4)), struct.pack("<f", 0.25))
    arrays, meta = decode_tensors(blob, ModelMeta)
    assert arrays["a"].tolist() == [[0.25]]
    assert meta == ModelMeta(run="r", round=1)


FOUR = bytes(4)


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        bytes(7),
        struct.pack("<Q", 2**64 - 1) + b"{}",
        struct.pack("<Q", 2**31) + b"{}",
        struct.pack("<Q", 3) + b"{}",
        blob_with(b"{}"),
        blob_with(b"[]"),
        blob_with(b'{"__metadata__":{"fedbed":1}}'),
        blob_with(b'{"__metadata__":{"other":"1"}}'),
        blob_with(b'{"__metadata__":' + b"[" * 90_000),
        blob_with(stamped(',"a":' + "[" * 90_000 + "]" * 90_000)),
        blob_with(stamped(',"a":' + "[" * 500 + "]" * 500)),
        blob_with(stamped("", meta="[" * 900 + "]" * 900)),
        blob_with(stamped("", meta="[" * 90_000 + "]" * 90_000)),
        blob_with(stamped("", meta='{"run":"r"}')),
        blob_with(stamped("", meta='{"run":"r","round":-1}')),
        blob_with(stamped("", meta='{"run":"r","round":1,"odd":1}')),
        blob_with(stamped("", encoding="zip")),
        blob_with(stamped("").replace(b"__meta", b"\xff\xfe__")),
        blob_with(stamped(""), b"rest"),
        blob_with(stamped(one("F32", "[-1]", 0, 4)), FOUR),
        blob_with(stamped(one("F32", "[-1,-1]", 0, 4)), FOUR),
        blob_with(stamped(one("F32", "[2]", 0, 4)), FOUR),
        blob_with(stamped(one("F32", "[1]", 0, 8)), FOUR),
        blob_with(stamped(one("F32", "[1]", 4, 8)), FOUR * 2),
        blob_with(stamped(one("F32", "[1]", 4, 0)), FOUR),
        blob_with(stamped(one("F32", f"[{2**62},4]", 0, 4)), FOUR),
        blob_with(stamped(one("F32", f"[{2**62},0]", 0, 0))),
        blob_with(stamped(one("F32", f"[{2**64 - 1},0]", 0, 0))),
        blob_with(stamped(one("F32", f"[{','.join(['1'] * 100)}]", 0, 4)), FOUR),
        blob_with(stamped(one("F32", "[1.0]", 0, 4)), FOUR),
        blob_with(stamped(one("BF16", "[2]", 0, 4)), FOUR),
        blob_with(stamped(one("F8_E4M3", "[4]", 0, 4)), FOUR),
        blob_with(stamped(one("F4", "[8]", 0, 4)), FOUR),
        blob_with(stamped(one("O", "[1]", 0, 4)), FOUR),
    ],
    ids=lambda blob: f"{len(blob)}-{blob[8:].hex()[:8]}",
)
def test_a_blob_that_lies_about_itself_is_refused(blob: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_tensors(blob, ModelMeta)


def test_metadata_of_another_kind_is_refused() -> None:
    with pytest.raises(ProtocolError):
        decode_tensors(encode_tensors({}, MODEL), UpdateMeta)


def test_a_weight_that_is_no_number_does_not_pass() -> None:
    odd = msgspec.structs.replace(UPDATE, weights={"base": float("nan")})
    with pytest.raises(ProtocolError, match="weights"):
        decode_tensors(encode_tensors({}, odd), UpdateMeta)


def fitting() -> dict[str, Array]:
    return {"base.w": np.ones((2, 3), np.float32), "head.b": np.array(1, np.float32)}


def test_arrays_that_are_the_models_pass() -> None:
    check_arrays(fitting(), fitting())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"head.b": None}, r"arrays missing or unknown: head\.b"),
        ({"head.c": np.ones(1, np.float32)}, r"arrays missing or unknown: head\.c"),
        (
            {"base.w": np.ones((3, 2), np.float32)},
            r"base\.w is float32\[3, 2\]; expected float",
        ),
        ({"base.w": np.ones((2, 3))}, r"base\.w is float64\[2, 3\]; expected float32\[2, 3\]"),
        ({"base.w": np.ones((2, 3), ">f4")}, r"base\.w is >f4\[2, 3\]; expected float32"),
        ({"head.b": np.ones(1, np.float32)}, r"head\.b is float32\[1\]; expected float32\[\]"),
        ({"head.b": np.array(np.nan, np.float32)}, r"head\.b has values that are not finite"),
        ({"head.b": np.array(-np.inf, np.float32)}, r"head\.b has values that are not finite"),
    ],
)
def test_arrays_that_are_not_the_models_are_named(
    change: dict[str, Array | None], reason: str
) -> None:
    arrays = {n: array for n, array in {**fitting(), **change}.items() if array is not None}
    with pytest.raises(ProtocolError, match=reason):
        check_arrays(arrays, fitting())
