"""Flushes files to the disk in the background."""

from __future__ import annotations

import logging
import queue
import threading
from pathlib import Path

from common.disk.atomic import explain, flush

log = logging.getLogger(__name__)


class Flusher:
    """One thread that flushes files, in the order in which they were added.

    For what must reach the disk soon, but not before work continues.
    """

    def __init__(self) -> None:
        self._queue: queue.Queue[Path] = queue.Queue()
        self._thread: threading.Thread | None = None

    def add(self, path: Path) -> None:
        """Flush this file, and its name in its folder, soon."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True, name="flusher")
            self._thread.start()
        self._queue.put(path)

    def wait(self) -> None:
        """Return when everything added so far is on the disk."""
        self._queue.join()

    def _work(self) -> None:
        while True:
            path = self._queue.get()
            try:
                flush(path)
            except FileNotFoundError:
                pass  # deleted in the meantime
            except OSError as error:
                log.warning("%s may not survive a power cut: %s", path, explain(error))
            finally:
                self._queue.task_done()
