"""Messages and tensors as bytes, and back: strict JSON, safetensors, chunks.

Decoding trusts nothing: for any bytes it returns a valid value or raises ProtocolError.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from typing import TypeVar, get_args

import msgspec
import numpy as np
import safetensors.numpy

from common.arrays import Array, Arrays
from common.errors import ProtocolError, VersionError
from common.wire.encodings import packed, unpacked
from common.wire.messages import (
    PROTOCOL,
    Chunk,
    ChunkHeader,
    Connected,
    Encoding,
    Message,
    Natural,
    Text,
    TrainDetail,
    Wire,
)
from common.wire.tensor_blob import METADATA, read_arrays, read_header
from common.wire.typed import decoder

MAX_JSON = 512 * 1024
CHUNK = 512 * 1024
MAX_FRAME = CHUNK + 4096
MAX_BLOB = CHUNK * 1024
_MAGIC = b"FBC1"
_META = "fedbed"  # one metadata key: safetensors writes several keys in no fixed order

W = TypeVar("W", bound=Wire)


for _kind in get_args(Message):  # now, while there is one thread
    decoder(_kind if _kind is not Chunk else ChunkHeader)


def encode(message: Wire) -> bytes:
    """A JSON message as bytes."""
    return msgspec.json.encode(message)


def decode(data: bytes, kind: type[W]) -> W:
    """Bytes as a JSON message of one kind."""
    if len(data) > MAX_JSON:
        raise ProtocolError(f"{len(data)} bytes of JSON; expected at most {MAX_JSON}")
    if kind in (Connected, TrainDetail):
        _check_protocol(data)
    try:
        data.decode()  # msgspec does not look into what it passes on as `Raw`
        return decoder(kind).decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"not a valid {kind.__name__}: {error}") from error


class _Greeting(msgspec.Struct):
    """The two fields by which even another version's handshake can be understood."""

    protocol: int
    version: str = "unknown"


def _check_protocol(data: bytes) -> None:
    try:
        greeting = decoder(_Greeting).decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"no protocol version: {error}") from error
    if greeting.protocol != PROTOCOL:
        raise VersionError(
            f"speaks protocol {greeting.protocol} (fedbed {greeting.version[:40]}), "
            f"this side speaks {PROTOCOL}; install the same fedbed on both"
        )


def blob_digest(data: bytes) -> str:
    """The name of these exact bytes."""
    return hashlib.sha256(data).hexdigest()[:32]


class ModelMeta(Wire, frozen=True, kw_only=True):
    """Metadata of a global model on its way to the boards."""

    run: Text
    round: Natural


class UpdateMeta(Wire, frozen=True, kw_only=True):
    """Metadata of a client's update: weights of the parts, and what the server may add up.

    Nothing here may differ between two trainings of the same task: no times, no host names.
    """

    run: Text
    round: Natural
    client: Natural
    samples: Natural
    steps: Natural
    weights: dict[str, float]
    loss: float | None
    values: dict[str, float] = {}  # noqa: RUF012 - msgspec copies it


class _Stamp(Wire, frozen=True, kw_only=True, omit_defaults=True):
    encoding: Text
    meta: msgspec.Raw
    scales: dict[str, float] = msgspec.field(default_factory=dict)


def encode_tensors(arrays: Arrays, meta: Wire, encoding: Encoding = "float32") -> bytes:
    """Named arrays and their metadata as one safetensors blob; same input, same bytes."""
    small, scales = packed(arrays, encoding)
    text = msgspec.Raw(msgspec.json.encode(meta))
    stamp = _Stamp(encoding=encoding, meta=text, scales=dict(sorted(scales.items())))
    solid = {name: np.asarray(array, order="C") for name, array in small.items()}
    return safetensors.numpy.save(solid, {_META: msgspec.json.encode(stamp).decode()})


def decode_tensors(
    data: bytes, kind: type[W], encoding: Encoding = "float32"
) -> tuple[dict[str, Array], W]:
    """A safetensors blob as named, read-only arrays and their metadata."""
    stamp = _read_stamp(data)
    if stamp.encoding != encoding:
        raise ProtocolError(f"encoding is {stamp.encoding[:40]!r}; expected {encoding!r}")
    try:
        meta = decoder(kind).decode(stamp.meta)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"not a valid tensor blob: {error}") from error
    arrays = unpacked(read_arrays(data), encoding, stamp.scales)
    for array in arrays.values():
        array.flags.writeable = False
    return arrays, meta


def decode_meta(data: bytes, kind: type[W]) -> W:
    """The metadata of a blob alone: whose it is, before anybody looks into it."""
    try:
        return decoder(kind).decode(_read_stamp(data).meta)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"not the metadata of a blob of ours: {error}") from error


def _read_stamp(data: bytes) -> _Stamp:
    header, _ = read_header(data)
    try:
        metadata = decoder(dict[str, str]).decode(header[METADATA])
        return decoder(_Stamp).decode(metadata[_META])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError) as error:
        raise ProtocolError(f"not a tensor blob of ours: {error!r}") from error


def check_arrays(arrays: Arrays, like: Arrays) -> None:
    """Refuse arrays without exactly these names, shapes and kinds, or that are not finite."""
    if set(arrays) != set(like):
        odd = sorted(set(arrays) ^ set(like))
        raise ProtocolError(f"arrays missing or unknown: {', '.join(odd)[:200]}")
    for name, wanted in like.items():
        array = arrays[name]
        if array.dtype != wanted.dtype or array.shape != wanted.shape:
            raise ProtocolError(
                f"{name} is {array.dtype}{list(array.shape)}; "
                f"expected {wanted.dtype}{list(wanted.shape)}"
            )
        if not np.isfinite(array).all():
            raise ProtocolError(
                f"{name} has values that are not finite (the training diverged)"
            )


def cut(
    blob: bytes,
    *,
    run: str,
    number: int,
    client: int | None,
    down: bool = False,
    digest: str = "",
) -> Iterator[Chunk]:
    """The parts of a blob, each small enough for one PUBLISH; `number` is the round.

    What is for no client in particular goes down to all. Whoever knows the digest says it.
    """
    parts = max(1, -(-len(blob) // CHUNK))
    name, view = digest or blob_digest(blob), memoryview(blob)
    for part in range(parts):
        header = ChunkHeader(
            run=run,
            round=number,
            client=client,
            down=down or client is None,
            part=part,
            parts=parts,
            size=len(blob),
            digest=name,
        )
        yield Chunk(header, view[part * CHUNK : (part + 1) * CHUNK])


def encode_chunk(chunk: Chunk) -> bytes:
    """Magic, header length, header as JSON, bytes of the part."""
    header = msgspec.json.encode(chunk.header)
    return b"".join((_MAGIC, struct.pack(">I", len(header)), header, chunk.body))


def decode_chunk(data: bytes) -> Chunk:
    """Bytes as a chunk whose header and length agree."""
    if len(data) > MAX_FRAME:
        raise ProtocolError(f"a chunk of {len(data)} bytes; expected at most {MAX_FRAME}")
    if data[:4] != _MAGIC or len(data) < 8:
        raise ProtocolError("not a chunk of ours")
    (length,) = struct.unpack_from(">I", data, 4)
    if length > 4096:
        raise ProtocolError(f"a chunk header of {length} bytes")
    try:
        header = decoder(ChunkHeader).decode(data[8 : 8 + length])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"not a valid chunk header: {error}") from error
    body = memoryview(data)[8 + length :]
    if header.client is None and not header.down:
        raise ProtocolError("an update of no client")
    if header.size > MAX_BLOB or header.parts != max(1, -(-header.size // CHUNK)):
        raise ProtocolError(f"{header.parts} parts do not make {header.size} bytes")
    if header.part >= header.parts:
        raise ProtocolError(f"part {header.part} of {header.parts}")
    if len(body) != min(CHUNK, header.size - header.part * CHUNK):
        raise ProtocolError(f"part {header.part} has {len(body)} bytes")
    return Chunk(header, body)
