"""What a stolen account can send that our own code would not: blobs and messages by hand."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec
import numpy as np

from common.arrays import Arrays
from common.wire.chunks import cut
from common.wire.messages import Chunk, Message
from common.wire.tensors import UpdateMeta, decode_tensors
from common.wire.topics import Packet, packet

DTYPES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}
_NO_CONTROLS = bytes(max(32, at) for at in range(256))
Entry: TypeAlias = dict[str, Any] | bytes
Forge: TypeAlias = Callable[[Message], Iterable[Packet]]


def forged_blob(
    arrays: Arrays,
    meta: bytes,
    *,
    twist: Callable[[dict[str, Entry]], None] = lambda _entries: None,
    stamp: bytes = b"",
) -> bytes:
    """A tensor blob with this metadata (JSON); `twist` changes the entries of its header.

    An entry may also be JSON as bytes; so may the stamp, which holds the metadata.
    """
    entries: dict[str, Entry] = {}
    body = b""
    for name, array in arrays.items():
        data = np.ascontiguousarray(array).tobytes()
        offsets = [len(body), len(body) + len(data)]
        kind = DTYPES[array.dtype.name]
        entries[name] = {"dtype": kind, "shape": [*array.shape], "data_offsets": offsets}
        body += data
    twist(entries)
    text = stamp or b'{"encoding":"float32","meta":' + meta + b"}"
    header = b'{"__metadata__":{"fedbed":' + quoted(text) + b"}"
    for name, entry in entries.items():
        raw = entry if isinstance(entry, bytes) else json_of(entry)
        header += b"," + json_of(name) + b":" + raw
    header += b"}"
    return struct.pack("<Q", len(header)) + header + body


def quoted(text: bytes) -> bytes:
    """Any bytes as what stands in a JSON string."""
    escaped = text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    return b'"' + escaped.translate(_NO_CONTROLS) + b'"'


def json_of(value: object) -> bytes:
    """JSON that may have NaN, Infinity and half of a surrogate pair."""
    return json.dumps(value).encode(errors="surrogatepass")


def update_in(chunk: Chunk) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays of an honest update of one part, and its metadata as JSON values."""
    arrays, meta = decode_tensors(bytes(chunk.body), UpdateMeta)
    return dict(arrays), msgspec.to_builtins(meta)


def with_blob(chunk: Chunk, blob: bytes) -> list[Packet]:
    """The blob, complete and with its right digest, in the place of a chunk."""
    header = chunk.header
    parts = cut(blob, run=header.run, round_number=header.round, client=header.client)
    return [packet("fl", part) for part in parts]


def with_meta(chunk: Chunk, **changes: object) -> list[Packet]:
    """An update with other metadata."""
    arrays, meta = update_in(chunk)
    return with_blob(chunk, forged_blob(arrays, json_of({**meta, **changes})))


def with_fields(message: Message, changes: Mapping[str, bytes]) -> Packet:
    """A JSON message with raw JSON in the place of some fields."""
    honest = packet("fl", message)
    fields: dict[str, msgspec.Raw] = msgspec.json.decode(
        honest.payload, type=dict[str, msgspec.Raw]
    )
    raw = {name: bytes(value) for name, value in fields.items()} | dict(changes)
    inside = b",".join(json.dumps(name).encode() + b":" + value for name, value in raw.items())
    return Packet(honest.topic, b"{" + inside + b"}", honest.retain)
