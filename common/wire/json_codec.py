"""PURE: JSON messages as bytes, and back.

Decoding trusts nothing: for any bytes it returns a valid message or raises ProtocolError.

msgspec works out a type when it first decodes it, and two threads that do so at once crash the
process (SIGSEGV, seen with msgspec 0.22). So the decoder of every type is made while the module
that defines the type is imported: `@decodable`.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast, get_args

import msgspec

from common.errors import ProtocolError, VersionError
from common.wire.messages import (
    PROTOCOL,
    Chunk,
    ChunkHeader,
    Connected,
    Job,
    Message,
    SecureRound,
    TrainDetail,
    Wire,
)

MAX_JSON = 512 * 1024
INVALID = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not a value of the type."""

T = TypeVar("T")
W = TypeVar("W", bound=Wire)
_decoders: dict[object, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind)
    for kind in (*get_args(Message), ChunkHeader, Job, SecureRound)
    if kind is not Chunk
}


def decodable(kind: type[T]) -> type[T]:
    """Class decorator: make the decoder of a type now, while one thread imports its module."""
    _decoders[kind] = msgspec.json.Decoder(kind)
    return kind


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """The decoder of a type that is `decodable`."""
    return cast("msgspec.json.Decoder[T]", _decoders[kind])


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
    except INVALID as error:
        raise ProtocolError(f"not a valid {kind.__name__}: {error}") from error


@decodable
class _Greeting(msgspec.Struct):
    """The two fields by which even another version's handshake can be understood."""

    protocol: int
    version: str = "unknown"


def _check_protocol(data: bytes) -> None:
    try:
        greeting = decoder(_Greeting).decode(data)
    except INVALID as error:
        raise ProtocolError(f"no protocol version: {error}") from error
    if greeting.protocol != PROTOCOL:
        raise VersionError(
            f"speaks protocol {greeting.protocol} (fedbed {greeting.version[:40]}), "
            f"this side speaks {PROTOCOL}; install the same fedbed on both"
        )
