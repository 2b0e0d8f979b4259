"""Ctrl-C and SIGTERM as a request to stop, and what is said then."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """The first signal calls `stop`, a second one does what it did before."""
    previous: dict[int, Any] = {}  # what signal.signal takes and gives

    def ask(number: int, _frame: object) -> None:
        signal.signal(number, previous[number])
        stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        previous[number] = signal.signal(number, ask)
    try:
        yield
    finally:
        for caught, handler in previous.items():
            signal.signal(caught, handler)


def how_to_go_on(command: str) -> str:
    """What somebody is told who has stopped a command that can go on later."""
    return f"stopped; nothing is lost. Go on with: {command}"


@contextmanager
def ends_with(command: str) -> Iterator[None]:
    """Ctrl-C within ends with the command to go on; the outermost one counts."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(how_to_go_on(command)) from error
