"""Ctrl-C and SIGTERM as a request to stop."""

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
