"""Those who look at a run: one that fails is dropped with one warning, and the run goes on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from common.texts import printable, shortened
from fl_server.watch.facts import Fact, Observer

log = logging.getLogger(__name__)


class Viewers:
    """Observers of a run by what they are called; facts may come from any thread."""

    def __init__(self, observers: Mapping[str, Observer]) -> None:
        self._observers = dict(observers)
        self._lock = threading.Lock()

    def observe(self, fact: Fact) -> None:
        """Report a fact to all that are left."""
        for name, observer in tuple(self._observers.items()):
            with without_failure(name, partial(self._drop, name)):
                observer(fact)

    def add(self, name: str, observer: Observer) -> None:
        """One more."""
        with self._lock:
            self._observers[name] = observer

    def has(self, name: str) -> bool:
        """Whether a viewer is still there."""
        return name in self._observers

    def _drop(self, name: str) -> bool:
        with self._lock:
            return self._observers.pop(name, None) is not None


@contextmanager
def without_failure(name: str, is_first: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Something for people: if it fails, that is a warning (once) and nothing more."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, the run must go on
        if is_first():
            why = shortened(printable(f"{type(error).__name__}: {error}"), 300)
            log.warning("%s has failed (%s); the run goes on without it", name, why)
