"""Flushes files to the disk in the background."""

from __future__ import annotations

import logging
import queue
import threading
from pathlib import Path

from common.disk.atomic import explain, flush

log = logging.getLogger(__name__)

IDLE_SECONDS = 1.0


class Flusher:
    """One thread that flushes files, in the order in which they were added.

    For what must reach the disk soon, but not before work continues. The thread ends when it
    has been idle for a while, and starts again when it is needed.
    """

    def __init__(self) -> None:
        self._queue: queue.Queue[Path] = queue.Queue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, path: Path) -> None:
        """Flush this file, and its name in its folder, soon."""
        with self._lock:
            self._queue.put(path)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True, name="flusher")
                self._thread.start()

    def wait(self) -> None:
        """Return when everything added so far is on the disk."""
        self._queue.join()

    def _work(self) -> None:
        while (path := self._next()) is not None:
            try:
                flush(path)
            except FileNotFoundError:
                pass  # deleted in the meantime
            except OSError as error:
                log.warning("%s may not survive a power cut: %s", path, explain(error))
            finally:
                self._queue.task_done()

    def _next(self) -> Path | None:
        try:
            return self._queue.get(timeout=IDLE_SECONDS)
        except queue.Empty:
            with self._lock:
                if self._queue.empty():
                    self._thread = None
                    return None
            return self._queue.get()
