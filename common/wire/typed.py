"""JSON decoders of types, made once and one after another.

msgspec works out a type when it is first used, and two threads that do so at once crash the
process (SIGSEGV, seen with msgspec 0.22). So whatever threads decode is worked out here, under
a lock, or while the modules are imported.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar, cast

import msgspec

T = TypeVar("T")
_lock = threading.Lock()
_decoders: dict[object, msgspec.json.Decoder[Any]] = {}


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """The decoder of a type."""
    found = _decoders.get(kind)
    if found is None:
        with _lock:
            found = _decoders.setdefault(kind, msgspec.json.Decoder(kind))
    return cast("msgspec.json.Decoder[T]", found)
