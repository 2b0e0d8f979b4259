"""A process as its owner holds it, forked by a fork server or started by itself.

Its program is a module of ours with a function `work`; nearly always it trains.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from typing import IO, Protocol

from common.program.child import python_module

# one thread each; and glibc keeps large blocks instead of mapping them again in every step
TUNING = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": "1000000000",
    "MALLOC_TRIM_THRESHOLD_": "1000000000",
}
TRAINING = "common.worker.training_process"

log = logging.getLogger(__name__)


class Child(Protocol):
    """Such a process."""

    @property
    def stdin(self) -> IO[bytes]:
        """Takes orders."""

    @property
    def stdout(self) -> IO[bytes]:
        """Gives reports."""

    @property
    def pid(self) -> int | None:
        """Its process id; waits until it has one, None if it never will."""

    def wait(self) -> int | None:
        """Its exit code once it has ended; None if nobody knows."""

    def kill(self) -> None:
        """Have it killed; `wait` waits for that."""


class Source(Protocol):
    """Where processes come from."""

    def start(self, program: str = TRAINING) -> Child:
        """A new one."""

    def release(self) -> None:
        """None is needed for a while."""

    def close(self) -> None:
        """None is needed any more."""


class StartedChild:
    """A process that imports torch by itself, which takes seconds."""

    def __init__(self, program: str) -> None:
        self._process = subprocess.Popen(
            python_module(program),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **TUNING},
            start_new_session=True,  # Ctrl-C is for the owner
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.stdin: IO[bytes] = self._process.stdin
        self.stdout: IO[bytes] = self._process.stdout
        self.pid: int | None = self._process.pid

    def wait(self) -> int | None:
        """Its exit code once it has ended."""
        return self._process.wait()

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()


class StartedProcesses:
    """Every process imports torch by itself: where forking is not possible."""

    def start(self, program: str = TRAINING) -> Child:
        """A new one."""
        return StartedChild(program)

    def release(self) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is kept."""


class ForkedChild:
    """A process that a fork server forks as soon as it is able to.

    Nobody waits for that: orders can be written at once. OSError if there is no server. It
    sends the process id and later the exit code over `control`, and kills the process when we
    shut that down or die.
    """

    def __init__(
        self,
        server: socket.socket,
        program: str = TRAINING,
        server_code: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._server_code = server_code
        self._lock = threading.Lock()
        self._answers: list[int] = []
        with contextlib.ExitStack() as theirs:
            self._control, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            theirs.enter_context(control)
            orders, stdin = os.pipe()
            theirs.callback(os.close, orders)
            stdout, reports = os.pipe()
            theirs.callback(os.close, reports)
            self.stdin: IO[bytes] = os.fdopen(stdin, "wb")
            self.stdout: IO[bytes] = os.fdopen(stdout, "rb")
            try:
                socket.send_fds(
                    server, [program.encode()], [orders, reports, 2, control.fileno()]
                )
            except OSError:
                for file in (self.stdin, self.stdout, self._control):
                    file.close()
                raise

    @property
    def pid(self) -> int | None:
        """Its process id; waits until it is forked, None if it never will be."""
        return self._answers[0] if self._answers else self._answer(0)

    def wait(self) -> int | None:
        """Its exit code; if its server has died, that of the server, if that is known."""
        code = self._answer(1)
        self._control.close()
        return self._server_code() if code is None else code

    def kill(self) -> None:
        """Kill it; one that is not yet forked will not be."""
        with contextlib.suppress(OSError):  # it has ended already
            self._control.shutdown(socket.SHUT_WR)

    def _answer(self, at: int) -> int | None:
        """What the server sends: first the process id, then the exit code, then no more."""
        with self._lock:
            while len(self._answers) <= at:
                try:
                    text = self._control.recv(32)
                except OSError:
                    text = b""
                if not text:
                    return None
                self._answers.append(int(text))
            return self._answers[at]


def fork_or_start(
    server: socket.socket,
    program: str,
    server_code: Callable[[], int | None] = lambda: None,
) -> Child:
    """A process that is forked, or started if the server is not there any more."""
    try:
        return ForkedChild(server, program, server_code)
    except OSError as error:
        log.warning("a process cannot be forked (%s) and is started", error)
        return StartedChild(program)


def death(code: int | None) -> str:
    """Why a process with this exit code died."""
    if code is None:
        return "the process that forked it was killed"
    if code >= 0:
        return f"exit code {code}; its last lines are in the log"
    hints = {
        signal.SIGKILL: "killed, probably because memory ran out",
        signal.SIGABRT: "perhaps because memory ran out; its last lines are in the log",
        signal.SIGILL: "this torch build needs a newer CPU than this board has",
    }
    cause = signal.Signals(-code)
    return f"{cause.name}: {hints.get(cause, 'stopped by a signal')}"
