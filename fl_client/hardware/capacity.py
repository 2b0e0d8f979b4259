"""How many training processes this board can feed."""

from __future__ import annotations

import logging
import os
from pathlib import Path

PROCESS_BYTES = 400 * 1024**2  # one process with torch: 250 to 300 MB measured, and some room
DAEMON_BYTES = 100 * 1024**2  # the daemon: 50 MB measured, and some room
RESERVED_BYTES = 300 * 1024**2  # the daemon, and a system that stays usable

log = logging.getLogger(__name__)

MEMORY = Path("/proc/meminfo")
CONTAINER_MEMORY = Path("/sys/fs/cgroup/memory.max")
GROUPS, OWN_GROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
CONTAINER_CPU = Path("/sys/fs/cgroup/cpu.max")


def workers_for(*, cores: int, memory: int | None, clients: int) -> int:
    """One process per core, if there is memory for them and a client for each; at least one."""
    fitting = cores if memory is None else (memory - RESERVED_BYTES) // PROCESS_BYTES
    return max(1, min(cores, fitting, clients))


def has_room_for_torch() -> bool:
    """Whether torch can stay imported while nothing is trained."""
    memory = _memory()
    if memory is None or memory >= RESERVED_BYTES + PROCESS_BYTES:
        return True
    log.info("%d MB are free: torch is imported when an experiment begins", memory / 1e6)
    return False


def usual_workers(clients: int) -> int:
    """What suits this machine (or the container we are in) as it is now."""
    return workers_for(cores=_cores(), memory=_memory(), clients=clients)


def memory_for_each(workers: int) -> int | None:
    """How many bytes each of so many processes may use; None where nothing is known.

    Never less than a process needs to start: with less the doctor warns, and it is tried.
    """
    memory = _memory()
    if memory is None:
        return None
    return max(PROCESS_BYTES, (memory - DAEMON_BYTES) // workers)


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)  # not on every system
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    quota, _, period = _read(CONTAINER_CPU).strip().partition(" ")
    if quota.isdecimal() and period.isdecimal() and int(period):
        cores = min(cores, max(1, int(quota) // int(period)))
    return cores


def _memory() -> int | None:
    """Bytes that could be used now; None where that is unknown."""
    lines = _read(MEMORY).splitlines()
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    limits = (_read(path).strip() for path in (CONTAINER_MEMORY, _own_group() / "memory.max"))
    found += [int(limit) for limit in limits if limit.isdecimal()]
    return min(found, default=None)


def _own_group() -> Path:
    """The control group of this process: a service has its limit there."""
    lines = _read(OWN_GROUP).splitlines()
    path = next((line[3:] for line in lines if line.startswith("0::")), "/")
    return GROUPS / path.strip("/")


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
