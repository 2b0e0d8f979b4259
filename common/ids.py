"""PURE: names and client ids as people write them, checked where they enter."""

from __future__ import annotations

import re
from collections.abc import Sequence

from common.errors import UsageError

MOST_RANGES = 20  # of ids, in a text for people
NAMES = "expected letters A-Z and a-z, digits, '.', '_' or '-' (at most 64)"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def check_name(name: str, what: str) -> str:
    """A board, federation or run name that is safe in a topic and in a path."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{what} is {name!r}; {NAMES}")
    return name


def parse_ids(text: str) -> tuple[int, ...]:
    """Client ids from "0,1,2" or "0-9" or a mixture; ascending, each once."""
    ids: set[int] = set()
    for piece in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})(?:\s*-\s*(\d{1,6}))?\s*", piece)
        if not match:
            raise UsageError(
                f"{text!r} is not a list of client ids; expected such as 0,1,2 or 0-9"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise UsageError(f"{piece.strip()!r} runs backwards; expected such as 0-9")
        ids.update(range(first, last + 1))
    return tuple(sorted(ids))


def show_ids(ids: Sequence[int]) -> str:
    """Client ids as briefly as possible: "0-3, 7"."""
    return ", ".join(_show(first, last) for first, last in _ranges(ids)) or "none"


def brief_ids(ids: Sequence[int], more: int = 0) -> str:
    """The same for people: of many ranges only the first ones, "0-3, 7 and 12 more".

    `more`: how many there are besides these.
    """
    found = _ranges(ids)
    more += sum(last - first + 1 for first, last in found[MOST_RANGES:])
    shown = ", ".join(_show(first, last) for first, last in found[:MOST_RANGES]) or "none"
    return f"{shown} and {more:,} more" if more else shown


def _ranges(ids: Sequence[int]) -> list[list[int]]:
    ranges: list[list[int]] = []
    for client_id in sorted(ids):
        if ranges and client_id == ranges[-1][1] + 1:
            ranges[-1][1] = client_id
        else:
            ranges.append([client_id, client_id])
    return ranges


def _show(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
