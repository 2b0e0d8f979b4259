"""Whether this process may start threads: some containers refuse the system call for it."""

from __future__ import annotations

import threading


def threads_problem() -> str | None:
    """Why no thread can be started; None if all is well."""
    thread = threading.Thread(target=int)
    try:
        thread.start()
    except RuntimeError as error:
        return str(error)
    thread.join()
    return None
