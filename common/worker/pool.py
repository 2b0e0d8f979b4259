"""Training processes as their owner sees them: orders in, reports out, deaths noticed."""

from __future__ import annotations

import contextlib
import resource
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from common.worker.children import Child, Source, death
from common.worker.orders import (
    REPORTS,
    Abandon,
    JobDone,
    JobError,
    JobOrder,
    Order,
    Prepare,
    Prepared,
    Report,
)

RELEASE_SECONDS = 5.0  # for the end of a process that was killed


@dataclass(slots=True, eq=False)
class _Process:
    child: Child
    prepared: bool = False
    announce: bool = False  # whether the owner waits for its `Prepared`
    job: int | None = None
    listener: threading.Thread | None = None


class Pool(Protocol):
    """Where jobs are done; what becomes of them is reported elsewhere, as `Report`s."""

    def prepare(self, order: Prepare) -> None:
        """Get ready for a run; `Prepared` follows."""

    def start(self, order: JobOrder) -> None:
        """Do a job; `JobDone` or `JobError` follows."""

    def abandon(self, job: int) -> None:
        """Give up a job; `JobError` without a problem follows, if it was not done before."""

    def release(self) -> None:
        """End everything and forget all jobs."""


class ProcessPool:
    """Up to `size` training processes; `post` gets every report, from other threads.

    The first process prepares a run alone (it may have to make shards), the others after it.
    `memory` is how many bytes each may use: beyond that an allocation fails in the process,
    which reports it, instead of the kernel choosing whom to kill.
    """

    def __init__(
        self,
        size: int,
        post: Callable[[Report], None],
        source: Source,
        memory: int | None = None,
    ) -> None:
        self._size = size
        self._source = source
        self._memory = memory
        self._post = post
        self._lock = threading.Lock()
        self._processes: list[_Process] = []
        self._order: Prepare | None = None

    def prepare(self, order: Prepare) -> None:
        """Get ready for a run; `Prepared` follows."""
        with self._lock:
            self._order = order
            for process in self._processes:
                process.prepared = False
            process = self._processes[0] if self._processes else self._start()
            process.prepared = process.announce = True
            self._send(process, order)

    def start(self, order: JobOrder) -> None:
        """Do a job on a free process; `JobDone` or `JobError` follows."""
        with self._lock:
            process = next((one for one in self._processes if one.job is None), None)
            if process is None:
                assert len(self._processes) < self._size, "more jobs than processes"
                process = self._start()
            if not process.prepared and self._order is not None:
                self._send(process, self._order)
                process.prepared = True
            process.job = order.job
            self._send(process, order)

    def abandon(self, job: int) -> None:
        """Give up a job at its next epoch; `JobError` without a problem follows."""
        with self._lock:
            for process in self._processes:
                if process.job == job:
                    self._send(process, Abandon(job=job))

    def release(self) -> None:
        """End all processes and forget their jobs: idle boards need their memory."""
        with self._lock:
            processes, self._processes = self._processes, []
            self._order = None
        for process in processes:
            process.child.kill()
        self._source.release()
        for process in processes:
            if process.listener is not None:
                process.listener.join(RELEASE_SECONDS)

    def pids(self) -> tuple[int, ...]:
        """The process ids."""
        with self._lock:
            children = [process.child for process in self._processes]
        return tuple(child.pid for child in children if child.pid is not None)

    def _start(self) -> _Process:
        process = _Process(self._source.start())
        self._processes.append(process)
        process.listener = threading.Thread(target=self._listen, args=(process,), daemon=True)
        process.listener.start()
        return process

    def _send(self, process: _Process, order: Order) -> None:
        try:
            process.child.stdin.write(msgspec.json.encode(order) + b"\n")
            process.child.stdin.flush()
        except BrokenPipeError:
            pass  # it has died; `_listen` reports that

    def _limit(self, pid: int | None) -> None:
        if self._memory is not None and pid is not None:
            with contextlib.suppress(ProcessLookupError):  # it has died; `_listen` reports that
                resource.prlimit(pid, resource.RLIMIT_DATA, (self._memory, self._memory))

    def _listen(self, process: _Process) -> None:
        self._limit(process.child.pid)  # waits until it is forked
        with process.child.stdout:
            for line in process.child.stdout:
                report = REPORTS.decode(line)
                if self._note(process, report):
                    self._post(report)
        code = process.child.wait()
        with self._lock:
            with contextlib.suppress(BrokenPipeError):  # of an order that it did not read
                process.child.stdin.close()
            if process not in self._processes:
                return
            self._processes.remove(process)
            job, order = process.job, self._order
        problem = f"the training process died ({death(code)})"
        if job is not None:
            self._post(JobError(job=job, problem=problem))
        elif order is not None and process.announce:
            self._post(Prepared(run=order.run, problem=problem))

    def _note(self, process: _Process, report: Report) -> bool:
        """Take note of a report; whether it is passed on to the owner."""
        with self._lock:
            if process not in self._processes:
                return False
            if isinstance(report, Prepared):
                awaited, process.announce = process.announce, False
                process.prepared = not report.problem
                return awaited
            if isinstance(report, JobDone | JobError):
                process.job = None
            return True
