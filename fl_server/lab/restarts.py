"""Killed boards of a lab are started again, as a real fleet's service manager would."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from common.errors import FedbedError, StoreError
from fl_server.lab.lab import Lab

WATCH_SECONDS = 1.0
RESTART_AFTER = 4  # looks at a killed board before it is started again


@contextmanager
def restarting_boards(testbed: Lab, fail: Callable[[FedbedError], None]) -> Iterator[None]:
    """Start killed boards again; a part of the lab that gave up fails the run."""
    done = threading.Event()

    def watch() -> None:
        dead: dict[str, int] = {}
        while not done.wait(WATCH_SECONDS):
            try:
                testbed.check()
                for board in testbed.killed():
                    dead[board] = dead.get(board, 0) + 1
                    if dead[board] >= RESTART_AFTER:
                        del dead[board]
                        testbed.start_board(board)
            except (FedbedError, OSError) as error:
                fail(StoreError(str(error)))
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
