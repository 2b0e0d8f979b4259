"""Shakespeare by LEAF's rules: a client is a role, a sample 80 characters and the next one.

Roles with more than two lines count; their lines are joined by a blank, and several blanks are
one. Every window of 80 characters predicts the character behind it, so roles with 80
characters or fewer have none.
"""

from __future__ import annotations

import io
import logging
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt

from common.data.datasets.base import SamplePool, Windows
from common.data.datasets.files import read_at_most, read_checked
from common.data.datasets.plays import Plays, plays_in_text, plays_in_xml
from common.errors import DataError

# LEAF's 80 symbols in LEAF's order; a character that is none of them is left out
ALPHABET = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
WIDTH = 80
FEWEST_LINES = 3
LONGEST_TEXT = 1 << 24
FEWEST_ROLES = 1000  # LEAF finds 1,129 in the text of 1994; other editions have hardly any

_NONE = 255
_TOKENS = np.array([ALPHABET.find(chr(code)) % 256 for code in range(256)], np.uint8)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlaysArchive:
    """All plays as XML, one file each, in one compressed archive."""

    sha256: str
    name: str = "moby_xml.tar.xz"

    @property
    def files(self) -> tuple[str, ...]:
        """The archive."""
        return (self.name,)

    def read(self, folder: Path) -> SamplePool:
        """All windows, role by role."""
        path = folder / self.name
        content = read_checked(path, "sha256", self.sha256)
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:xz") as archive:
            documents = {
                PurePosixPath(member.name).stem: stream.read()
                for member in archive
                if member.name.endswith(".xml") and (stream := archive.extractfile(member))
            }
        return windows_of(plays_in_xml(sorted(documents.items())))


@dataclass(frozen=True, slots=True)
class PlaysText:
    """Project Gutenberg's text of 1994, which LEAF reads; its digest was never published."""

    name: str = "100.txt"
    fewest_roles: int = FEWEST_ROLES

    @property
    def files(self) -> tuple[str, ...]:
        """The text."""
        return (self.name,)

    def read(self, folder: Path) -> SamplePool:
        """All windows, role by role."""
        path = folder / self.name
        text = read_at_most(path, LONGEST_TEXT).decode("latin-1")
        pool = windows_of(plays_in_text(text))
        assert pool.natural is not None
        roles = len(pool.natural) - 1
        if roles < self.fewest_roles:
            raise DataError(
                f"{path} is damaged or another edition: LEAF's rules find {roles} roles; "
                f"expected {self.fewest_roles} or more, as in Project Gutenberg's of 1994"
            )
        return pool


def windows_of(plays: Plays) -> SamplePool:
    """The windows of every role that has any; the roles are the natural clients."""
    texts = [_tokens(" ".join(lines)) for lines in plays.values() if len(lines) >= FEWEST_LINES]
    texts = [text for text in texts if len(text) > WIDTH]
    log.info("Shakespeare: %d roles of %d have windows", len(texts), len(plays))
    sizes = np.array([len(text) for text in texts], np.int64)
    begins = np.cumsum(sizes) - sizes
    bounds = np.concatenate([[0], np.cumsum(sizes - WIDTH)]).astype(np.int64)
    # every role before has cost its last 80 places, where no window begins
    shift = np.repeat(begins - bounds[:-1], sizes - WIDTH)
    starts = np.arange(bounds[-1]) + shift
    text = np.concatenate([np.empty(0, np.uint8), *texts])
    return SamplePool(
        Windows(text, starts, WIDTH), text[starts + WIDTH].astype(np.int64), bounds
    )


def _tokens(text: str) -> npt.NDArray[np.uint8]:
    """The numbers of the symbols of a text, of several blanks only one."""
    text = re.sub("  +", " ", text.replace("\n", " "))
    tokens = _TOKENS[np.frombuffer(text.encode("latin-1", "ignore"), np.uint8)]
    known: npt.NDArray[np.uint8] = tokens[tokens != _NONE]
    return known
