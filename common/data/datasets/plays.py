"""Who says what in Shakespeare's plays: from XML, or from the plain text that LEAF reads.

Both give the spoken lines of every role of every play, in order, as `Plays`.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from itertools import pairwise
from typing import TypeAlias

Role: TypeAlias = tuple[str, str]  # the play and the name
Plays: TypeAlias = dict[Role, list[str]]

_AUTHOR = "by William Shakespeare"
# In the edition of 1994 a speech begins with two blanks and a name, and goes on after four.
_SPEECH = re.compile(r"  ([A-Za-z][A-Za-z ]*)\. (.*)")
_MORE = re.compile(r"    (.*)")
# One play lacks the blanks.
_UNINDENTED = "THE COMEDY OF ERRORS"
_PLAIN_SPEECH = re.compile(r"([A-Za-z][A-Za-z ]*)\. (.*)")
_PLAIN_MORE = re.compile(r"(.*)")
_FARTHEST_TITLE = 7  # lines above the author
_LAST_LINE = 124_195  # of the edition; a poem and notes follow


def plays_in_xml(documents: Iterable[tuple[str, bytes]]) -> Plays:
    """Roles from plays in Jon Bosak's markup, given as (name of the play, XML).

    What several speak together is a role of its own, as a chorus has its own in print; stage
    directions inside of lines are left out.
    """
    plays: Plays = {}
    for play, document in documents:
        for speech in ET.fromstring(document).iter("SPEECH"):  # noqa: S314 - its digest is known
            speakers = [(speaker.text or "").strip() for speaker in speech.iter("SPEAKER")]
            lines = plays.setdefault((play, " and ".join(speakers).upper()), [])
            lines.extend(_spoken(line) for line in speech.iter("LINE"))
    return plays


def _spoken(line: ET.Element) -> str:
    return (line.text or "") + "".join(part.tail or "" for part in line)


def plays_in_text(text: str) -> Plays:
    """Roles from Project Gutenberg's "complete works" of 1994, found as LEAF finds them.

    Like there, the works before the second play are passed over.
    """
    lines = text.splitlines()
    authors = [i for i, line in enumerate(lines[:_LAST_LINE]) if _AUTHOR in line]
    plays: Plays = {}
    for start, end in pairwise([*authors[1:], _LAST_LINE]):
        _add_play(plays, _title_above(lines, start), lines[start + 1 : end])
    return plays


def _title_above(lines: list[str], author: int) -> str:
    """The nearest line above the author's name that says something, but not the one next."""
    above = lines[max(0, author - _FARTHEST_TITLE) : max(0, author - 1)]
    return next((line.strip() for line in reversed(above) if line.strip()), "")


def _add_play(plays: Plays, title: str, lines: list[str]) -> None:
    plain = title == _UNINDENTED
    begins, goes_on = (_PLAIN_SPEECH, _PLAIN_MORE) if plain else (_SPEECH, _MORE)
    speaker: str | None = None
    for line in lines:
        if speech := begins.match(line):
            name = speech[1].upper()
            speaker = None if plain and name.startswith("ACT ") else name
            if speaker is not None:
                plays.setdefault((title, speaker), []).append(speech[2])
        elif speaker is not None and (more := goes_on.match(line)):
            if plain and more[1].startswith("<"):
                speaker = None  # the notes of the publisher, between two plays
            else:
                plays[title, speaker].append(more[1])
