"""PURE: texts from outside, as one line that cannot do anything to a terminal or a log."""

from __future__ import annotations

from functools import cache
from typing import get_type_hints

import msgspec


def printable(text: str) -> str:
    """A text in one line: no newline, escape sequence or other control character in it."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}"
        for c in text
    )


def escaped(text: str, keep: str = "") -> str:
    r"""The same, but nothing is lost: a newline becomes \n, an escape character \x1b."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text
    )


def shortened(text: str, most: int) -> str:
    """At most so many characters of a text."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


@cache
def text_fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields of a class that hold a text, or perhaps None."""
    hints = get_type_hints(kind)
    return tuple(n for n in kind.__struct_fields__ if hints[n] in (str, str | None))
