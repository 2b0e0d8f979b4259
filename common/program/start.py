"""The first moment of a program: Ctrl-C while it still imports ends it without a traceback."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_interrupt() -> Iterator[None]:
    """Within, Ctrl-C ends the process as the system does it by default."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
