"""PURE: blobs cut into chunks that fit into one PUBLISH each, and chunks as bytes.

Decoding trusts nothing: for any bytes it returns a valid chunk or raises ProtocolError. The
parts are put together in `assembly.py`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator

import msgspec

from common.errors import ProtocolError
from common.wire.json_codec import INVALID, decoder
from common.wire.messages import Chunk, ChunkHeader

CHUNK = 512 * 1024
MAX_FRAME = CHUNK + 4096
MAX_BLOB = CHUNK * 1024
_MAGIC = b"FBC1"


def blob_digest(data: bytes) -> str:
    """The name of these exact bytes."""
    return name_of(hashlib.sha256(data))


def name_of(state: hashlib._Hash) -> str:
    """The name of the bytes that were put into a SHA-256."""
    return state.hexdigest()[:32]


def cut(
    blob: bytes,
    *,
    run: str,
    round_number: int,
    client: int | None,
    down: bool = False,
    digest: str = "",
) -> Iterator[Chunk]:
    """The parts of a blob, each small enough for one PUBLISH.

    A blob without a client goes down to all. The digest is computed if it is not given.
    """
    parts = max(1, -(-len(blob) // CHUNK))
    name, view = digest or blob_digest(blob), memoryview(blob)
    for part in range(parts):
        header = ChunkHeader(
            run=run,
            round=round_number,
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
    except INVALID as error:
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
