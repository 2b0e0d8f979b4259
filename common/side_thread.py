"""One thread beside the others, for work during which Python lets them go on: digests, sums.

It does one piece after another, in the order in which they were given.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_THREAD = ThreadPoolExecutor(1, "side")  # starts with the first piece of work


def beside(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
    """Do a piece of work there; its result, later."""
    return _THREAD.submit(work, *args, **kwargs)
