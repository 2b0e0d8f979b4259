"""Arrays in fewer bytes: how much is lost, and what is refused."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.arrays import Array, digest
from common.errors import ProtocolError
from common.wire.messages import Encoding
from common.wire.tensors import ModelMeta, decode_tensors, encode_tensors

META = ModelMeta(run="r", round=1)
LOSSY: tuple[Encoding, ...] = ("float16", "int8")


@st.composite
def floats(draw: st.DrawFn) -> Array:
    shape = draw(st.lists(st.integers(0, 5), max_size=3))
    seed, size = draw(st.integers(0, 999)), draw(st.integers(-30, 30))
    rng = np.random.default_rng(seed)
    return np.asarray(rng.standard_normal(shape) * 2.0**size, dtype=np.float32)


def there_and_back(array: Array, encoding: Encoding) -> Array:
    blob = encode_tensors({"base.a": array}, META, encoding)
    return decode_tensors(blob, ModelMeta, encoding)[0]["base.a"]


@given(floats())
def test_int8_loses_at_most_half_a_step_of_the_largest_value(array: Array) -> None:
    back = there_and_back(array, "int8")
    assert back.dtype == np.float32
    assert back.shape == array.shape
    largest = float(np.abs(array).max(initial=0.0))
    assert np.all(np.abs(back.astype(float) - array) <= largest / 127 * 0.5001)


@given(floats())
def test_float16_gives_the_nearest_half_precision_value(array: Array) -> None:
    array = np.clip(array, -60_000, 60_000)
    back = there_and_back(array, "float16")
    assert back.dtype == np.float32
    assert back.shape == array.shape
    assert np.all(np.abs(back.astype(float) - array) <= np.abs(array) * 2.0**-11 + 2.0**-25)


@given(floats(), st.sampled_from(LOSSY))
def test_what_was_decoded_is_encoded_without_further_loss(
    array: Array, encoding: Encoding
) -> None:
    array = np.clip(array, -60_000, 60_000)
    once = there_and_back(array, encoding)
    assert np.allclose(there_and_back(once, encoding), once, rtol=1e-6, atol=0)


def test_zeros_and_the_largest_values_are_exact_in_int8() -> None:
    array = np.array([0, -2.54, 2.54, 0.02], np.float32)
    assert there_and_back(array, "int8").tolist() == pytest.approx([0, -2.54, 2.54, 0.02])
    assert there_and_back(np.zeros(3, np.float32), "int8").tolist() == [0, 0, 0]


@pytest.mark.parametrize("encoding", LOSSY)
def test_whole_numbers_are_left_alone(encoding: Encoding) -> None:
    arrays: dict[str, Array] = {
        "base.n": np.arange(5),
        "base.small": np.arange(-3, 3, dtype=np.int8),
    }
    back, _ = decode_tensors(encode_tensors(arrays, META, encoding), ModelMeta, encoding)
    assert digest(back) == digest(arrays)


@pytest.mark.parametrize("encoding", LOSSY)
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_not_finite(encoding: Encoding, odd: float) -> None:
    assert not np.isfinite(there_and_back(np.array([1, odd], np.float32), encoding)).all()


def test_a_value_too_large_for_float16_becomes_infinite() -> None:
    assert np.isinf(there_and_back(np.array([1e6], np.float32), "float16")).all()


@pytest.mark.parametrize(("encoding", "most"), [("float16", 0.51), ("int8", 0.26)])
def test_a_large_array_takes_its_share_of_the_bytes(encoding: Encoding, most: float) -> None:
    arrays = {"base.a": np.random.default_rng(1).standard_normal(50_000).astype(np.float32)}
    full, small = encode_tensors(arrays, META), encode_tensors(arrays, META, encoding)
    assert len(small) < most * len(full)


def test_another_encoding_than_the_experiments_is_refused() -> None:
    blob = encode_tensors({}, META, "int8")
    with pytest.raises(ProtocolError, match="encoding is 'int8'; expected 'float16'"):
        decode_tensors(blob, ModelMeta, "float16")


def blob_of(kind: str, scales: str) -> bytes:
    stamp = f'{{"encoding":"int8","meta":{{"run":"r","round":1}},"scales":{scales}}}'
    header = {
        "__metadata__": {"fedbed": stamp},
        "a": {"dtype": kind, "shape": [4], "data_offsets": [0, 4 if kind == "I8" else 16]},
    }
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(4 if kind == "I8" else 16)


@pytest.mark.parametrize(
    ("kind", "scales"),
    [
        ("I8", '{"b":1.0}'),
        ("I8", '{"a":-1.0}'),
        ("I8", '{"a":1e300}'),
        ("I8", '{"a":null}'),
        ("I8", '{"a":"1"}'),
        ("I8", "[1]"),
        ("F32", '{"a":1.0}'),
    ],
)
def test_scales_that_do_not_fit_are_refused(kind: str, scales: str) -> None:
    with pytest.raises(ProtocolError):
        decode_tensors(blob_of(kind, scales), ModelMeta, "int8")


def test_a_scaled_array_written_by_hand_is_read() -> None:
    arrays, _ = decode_tensors(blob_of("I8", '{"a":0.5}'), ModelMeta, "int8")
    assert arrays["a"].dtype == np.float32
