"""Mosquitto's log: private, bounded, and the end of it for error messages."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import IO

from broker.config import PRIVATE

MOST_BYTES = 4 * 1024 * 1024  # of each of the two files
_LAST_LINES = 5
_LAST_BYTES = 64 * 1024
_NOISE = re.compile("should not be run as root|New connection from|Client <unknown>")


class LogFile:
    """What Mosquitto writes; when it is full, it moves to `<name>.1` and starts anew."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._start = 0  # of what the process that runs now has written

    def open(self) -> IO[bytes]:
        """The end of the file, for a new process to append to."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        output = os.fdopen(os.open(self.path, flags, PRIVATE), "ab")
        os.fchmod(output.fileno(), PRIVATE)
        self._start = output.tell()
        return output

    def rotate(self) -> bool:
        """Make room when the file is full; True if it was.

        Mosquitto keeps the file open and appends: it is copied and emptied, not renamed. What
        it writes between the two is lost.
        """
        try:
            if self.path.stat().st_size <= MOST_BYTES:
                return False
            old = self.path.with_name(f"{self.path.name}.1")
            old.unlink(missing_ok=True)
            with self.path.open("rb") as source, _new(old) as target:
                source.seek(-MOST_BYTES, os.SEEK_END)
                shutil.copyfileobj(source, target)
        except FileNotFoundError:
            return False
        os.truncate(self.path, 0)
        self._start = 0
        return True

    def last_lines(self) -> str:
        """The end of what was logged since the last start, as one line."""
        try:
            with self.path.open("rb") as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(self._start, end - _LAST_BYTES))
                text = file.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
        lines = [line for line in text.splitlines() if not _NOISE.search(line)]
        # A reader of an error knows when it happened.
        return " / ".join(re.sub(r"^[\dT:-]+: ", "", line) for line in lines[-_LAST_LINES:])


def _new(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "wb")
