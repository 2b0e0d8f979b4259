"""PURE: the bytes of a safetensors file, read in place: header and arrays without a copy.

safetensors itself copies every array, which would double the memory of each update.
"""

from __future__ import annotations

import math
import struct
from typing import Annotated, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from common.arrays import Array
from common.errors import ProtocolError
from common.wire.json_codec import INVALID, decodable, decoder

MAX_HEADER = 512 * 1024
METADATA = "__metadata__"
_KINDS = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U8": "u1",
    "BOOL": "?",
}
Header: TypeAlias = dict[str, msgspec.Raw]
_Length = Annotated[int, Meta(ge=0, le=2**40)]
_HEADER: msgspec.json.Decoder[Header] = msgspec.json.Decoder(Header)


@decodable
class TensorEntry(msgspec.Struct, forbid_unknown_fields=True):
    """One array in the header of a blob."""

    dtype: Annotated[str, Meta(max_length=20)]
    shape: Annotated[tuple[_Length, ...], Meta(max_length=32)]  # numpy has no more dimensions
    data_offsets: tuple[_Length, _Length]


def read_header(data: bytes, most: int = MAX_HEADER) -> tuple[Header, int]:
    """The header's entries, and where the arrays begin; `most` bytes at the most."""
    try:
        (length,) = struct.unpack_from("<Q", data)
        if length > min(len(data) - 8, most):
            raise ProtocolError(f"a header of {length} bytes in a blob of {len(data)}")
        return _HEADER.decode(data[8 : 8 + length]), 8 + length
    except (struct.error, *INVALID) as error:
        raise ProtocolError(f"not a tensor blob: {error}") from error


def read_arrays(data: bytes, most: int = MAX_HEADER) -> dict[str, Array]:
    """Named, read-only views of `data`, which they must fill without a gap."""
    header, start = read_header(data, most)
    places = {name: _place(name, raw) for name, raw in header.items() if name != METADATA}
    end = 0
    for name, place in sorted(places.items(), key=lambda item: item[1].data_offsets):
        first, last = place.data_offsets
        size = math.prod(place.shape) * np.dtype(_KINDS[place.dtype]).itemsize
        if first != end or last - first != size:
            raise ProtocolError(f"{name[:100]} is at bytes {first} to {last}; expected {end}")
        end = last
    if start + end != len(data):
        raise ProtocolError(f"{len(data)} bytes; the header describes {start + end}")
    return {name: _view(data, start, place) for name, place in places.items()}


def _place(name: str, raw: msgspec.Raw) -> TensorEntry:
    try:
        place = decoder(TensorEntry).decode(raw)
    except INVALID as error:
        raise ProtocolError(f"{name[:100]}: {error}") from error
    if place.dtype not in _KINDS:
        raise ProtocolError(f"{name[:100]} is {place.dtype}; expected {', '.join(_KINDS)}")
    return place


def _view(data: bytes, start: int, place: TensorEntry) -> Array:
    kind, count = np.dtype(_KINDS[place.dtype]), math.prod(place.shape)
    at = start + place.data_offsets[0]
    try:
        # numpy takes no empty array from a buffer
        flat = np.frombuffer(data, kind, count, at) if count else np.empty(0, kind)
        array = flat.reshape(place.shape)
    except ValueError as error:  # more or longer dimensions than numpy supports
        raise ProtocolError(f"shape {place.shape}: {error}"[:300]) from error
    array.flags.writeable = False
    return array
