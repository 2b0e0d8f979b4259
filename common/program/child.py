"""Child processes: Python modules of ours, that do not outlive their parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def python_module(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of ours.

    Unlike `python -m` alone, it does not put the current folder first on the path: a file
    `common.py` of the user's there would hide ours.
    """
    if sys.version_info >= (3, 11):
        start = ["-P", "-m", module]
    else:
        run = f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
        start = ["-c", f"import sys; sys.path.remove(''); import runpy; {run}"]
    return [sys.executable, *start, *arguments]


def dies_with_parent() -> Callable[[], None] | None:
    """A `preexec_fn` by which a child gets SIGTERM when the thread that started it ends.

    Linux only, None elsewhere. It works however the parent dies, also by SIGKILL.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def ask_for_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)

    return ask_for_signal
