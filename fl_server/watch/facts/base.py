"""PURE: what all facts have in common; see `__init__.py`."""

from __future__ import annotations

import msgspec


class Base(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="event", forbid_unknown_fields=True
):
    """What every fact has: the time at which it was reported, in seconds since 1970."""

    time: float = 0.0


class Note(Base, frozen=True):
    """A fact that is a sentence, perhaps about a board and one of its clients."""

    text: str
    board: str = ""
    client: int | None = None
