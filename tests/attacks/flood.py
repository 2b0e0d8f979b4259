"""Floods of hostile messages, against a coordinator and against a daemon.

    python -m tests.attacks.flood 1000000

The real coordinator and the real daemon run on a broker in memory. Everything is also given to
what people look at: the listener on the topics, the view, the page's sections, the screen.
"""

from __future__ import annotations

import logging
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.attacks.flooded_board import BoardFlood
from tests.attacks.flooded_run import RunFlood

BOARD_SHARE = 5  # every so many messages of a flood are for a board
PART = 50_000  # messages of one flood


@dataclass(frozen=True)
class Outcome:
    """What a flood has done."""

    messages: int
    updates: int  # complete ones among them
    growth: int  # bytes of resident memory


def flood(folder: Path, messages: int, seed: int) -> Outcome:
    """A run and a board under fire, killed and resumed in between; both end as undisturbed."""
    before = resident()
    for_board = messages // BOARD_SHARE
    with no_errors():
        run = RunFlood(folder / "run", seed)
        run.play(messages - for_board)
        board = BoardFlood(folder / "board", seed)
        board.play(for_board)
    return Outcome(run.sent + board.sent, run.updates, resident() - before)


@contextmanager
def no_errors() -> Iterator[None]:
    """Fail if a message could be dropped only because a guard caught what it caused."""
    caught: list[str] = []
    guard = logging.Handler(logging.ERROR)
    formatter = logging.Formatter()

    def emit(record: logging.LogRecord) -> None:
        if record.exc_info:
            caught.append(formatter.format(record))

    guard.emit = emit  # type: ignore[method-assign]
    logging.getLogger().addHandler(guard)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(guard)
    assert not caught, "\n\n".join(caught[:5])


def resident() -> int:
    """Memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main(messages: int, show: Callable[[str], None]) -> None:
    """Flood after flood, until so many messages were sent."""
    began, sent, updates, seed = time.monotonic(), 0, 0, 1000
    while sent < messages:
        with tempfile.TemporaryDirectory() as folder:
            outcome = flood(Path(folder), min(PART, messages - sent), seed)
        sent, updates, seed = sent + outcome.messages, updates + outcome.updates, seed + 1
        seconds = time.monotonic() - began
        show(
            f"{sent} messages, {updates} complete updates among them, in {seconds:.0f} s; "
            f"memory {resident() / 1e6:.0f} MB"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]), lambda line: print(line, flush=True))  # noqa: T201
