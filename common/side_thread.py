"""One thread beside the others, for work during which Python lets them go on: digests, sums.

It does one piece after another, in the order in which they were given. Executors of the library
do the same, but handing over a piece costs them five times as much.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Later(Generic[R]):
    """What a piece of work will give."""

    def __init__(self, work: Callable[[], R]) -> None:
        self._work = work
        self._value: list[R] = []
        self._error: BaseException | None = None
        self._open = threading.Lock()
        self._open.acquire()

    def do(self) -> None:
        """Do the work; whatever it raises is for who wants the result."""
        try:
            self._value.append(self._work())
        except BaseException as error:  # noqa: BLE001 - raised again by `result`
            self._error = error
        del self._work  # and what it holds
        self._open.release()

    def result(self) -> R:
        """Its result, once it is there, or what it has raised."""
        with self._open:
            if self._error is not None:
                raise self._error
            return self._value[0]


def beside(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Later[R]:
    """Do a piece of work there; its result, later."""
    later = Later(lambda: work(*args, **kwargs))
    _waiting.put(later.do)
    if _unstarted.acquire(blocking=False):  # with the first piece, once
        threading.Thread(target=_serve, name="side", daemon=True).start()
    return later


_waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
_unstarted = threading.Lock()


def _serve() -> None:
    while True:
        _waiting.get()()
