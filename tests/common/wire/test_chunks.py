"""Chunks of blobs and back, and what is refused."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.errors import ProtocolError
from common.wire.chunks import (
    CHUNK,
    MAX_BLOB,
    MAX_FRAME,
    blob_digest,
    cut,
    decode_chunk,
    encode_chunk,
)
from common.wire.messages import (
    Chunk,
    ChunkHeader,
)
from tests.common.wire.codec_strategies import (
    chunks,
    damaged,
    only_protocol_errors,
)


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
    frames = [encode_chunk(c) for c in cut(blob, run="r" * 120, round_number=1, client=999_999)]
    assert max(len(f) for f in frames) <= MAX_FRAME
    parts = [decode_chunk(f) for f in frames]
    assert b"".join(part.body for part in parts) == blob
    assert {part.header.digest for part in parts} == {blob_digest(blob)}
    assert [part.header.part for part in parts] == list(range(parts[0].header.parts))
