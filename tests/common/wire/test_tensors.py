"""Tensor blobs and back, and what is refused."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.arrays import Array, digest
from common.errors import ProtocolError
from common.wire.tensors import (
    ModelMeta,
    SumMeta,
    UpdateMeta,
    check_arrays,
    decode_tensors,
    encode_tensors,
    is_sum,
)
from tests.common.wire.codec_strategies import (
    MODEL,
    SUM,
    UPDATE,
    arrays_of_any_kind,
    damaged,
    only_protocol_errors,
)


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
from common.wire.chunks import blob_digest
from common.wire.tensors import ModelMeta, UpdateMeta, encode_tensors
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


def test_a_sum_of_several_clients_is_told_from_an_update() -> None:
    arrays = {"base.w": np.arange(3, dtype=np.int64)}
    blob = encode_tensors(arrays, SUM)
    assert is_sum(blob)
    assert not is_sum(encode_tensors(arrays, UPDATE))
    back, meta = decode_tensors(blob, SumMeta)
    assert meta == SUM
    assert digest(back) == digest(arrays)
    assert list(meta.metas()) == [7, 8]


@given(st.data())
def test_a_damaged_sum_is_refused_or_a_sum(data: st.DataObject) -> None:
    broken = data.draw(damaged(encode_tensors({}, SUM)))
    only_protocol_errors(lambda: decode_tensors(broken, SumMeta))
    only_protocol_errors(lambda: is_sum(broken))


def test_a_sum_of_too_many_clients_is_refused() -> None:
    crowd = encode_tensors({}, msgspec.structs.replace(SUM, members=SUM.members * 51))
    with pytest.raises(ProtocolError):
        decode_tensors(crowd, SumMeta)
