"""How a line of the log looks: for people, for machines (JSON), for journald.

A message may contain a text from outside: control characters in it are escaped, so that it
neither controls a terminal nor looks like another line of the log.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from types import TracebackType
from typing import TextIO, TypeAlias

from common.texts import escaped

HUMAN = "%(asctime)s %(levelname).1s %(name)s: %(message)s"
FORMATS = ("human", "json")
_PRIORITIES = ((logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))


ErrorInfo: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)


class LineFormatter(logging.Formatter):
    """One line per record; the lines of its traceback are indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - as inherited
        """The line."""
        return escaped(super().formatMessage(record))

    def formatException(self, ei: ErrorInfo) -> str:  # noqa: N802 - as inherited
        """The traceback."""
        lines = super().formatException(ei).split("\n")
        return "\n".join(f"    {escaped(line)}" for line in lines)


class JsonFormatter(logging.Formatter):
    """One JSON object per record."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as JSON; an exception's traceback is in `error`."""
        fact = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fact["error"] = self.formatException(record.exc_info)
        return json.dumps(fact)  # in ASCII: nothing in it controls a terminal


class JournalFormatter(LineFormatter):
    """journald has its own clock and reads the priority from the beginning of each line."""

    def format(self, record: logging.LogRecord) -> str:
        """A record with its priority before every line."""
        prefix = f"<{priority(record.levelno)}>"
        return prefix + super().format(record).replace("\n", f"\n{prefix}")


def priority(level: int) -> int:
    """The number that syslog and journald have for a level."""
    return next((number for least, number in _PRIORITIES if level >= least), 7)


def is_journal(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether this stream goes straight to journald, by the variable that systemd sets."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environment.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def make_formatter(
    form: str, stream: TextIO, environment: Mapping[str, str]
) -> logging.Formatter:
    """The formatter for a stream; JSON only where it was asked for."""
    if form == "json":
        return JsonFormatter()
    if is_journal(stream, environment):
        return JournalFormatter("%(name)s: %(message)s")
    return LineFormatter(HUMAN, datefmt="%H:%M:%S")
