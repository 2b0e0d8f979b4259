"""How much of this machine the broker may use: memory and open connections."""

from __future__ import annotations

import contextlib
import os
import resource
from pathlib import Path

from broker.config import MOST_MEMORY_BYTES

_CGROUP = Path("/sys/fs/cgroup/memory.max")  # in a container or a service with a limit
_OTHER_FILES = 100  # that Mosquitto opens beside its connections


def memory_bytes() -> int:
    """Half of the memory of this machine or container, at most what Mosquitto accepts."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):  # without a limit it reads "max"
        total = min(total, int(_CGROUP.read_text(encoding="ascii")))
    return min(total // 2, MOST_MEMORY_BYTES)


def resident_bytes(pid: int) -> int:
    """The memory that a process occupies; 0 on systems without /proc."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def allow_connections(count: int) -> None:
    """Let the processes we start open that many connections, as far as the system allows.

    Not more either: Mosquitto 2.0 counts a TLS connection that ended without a login twice, so
    that its own limit grows with every such attack.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + _OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
