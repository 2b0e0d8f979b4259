"""A fork server as its owner holds it: kept alive, shared with child processes, ended."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from common.errors import UsageError
from common.program.child import python_module
from common.worker.children import (
    TRAINING,
    TUNING,
    Child,
    Source,
    StartedProcesses,
    death,
    fork_or_start,
)

# How the owner of this process hands down its own: the number of a file, or a path (`shared`).
INHERITED = "FEDBED_FORK_SERVER"

log = logging.getLogger(__name__)


class ForkServer:
    """Starts the server when it is needed (or before: `warm_up`) and again when it was killed.

    Both ends of its socket stay here, so requests wait for a server that is not there yet.
    With `keep` it stays when no training process is needed for a while.
    """

    def __init__(self, *, keep: bool) -> None:
        self._keep = keep
        self._lock = threading.Lock()
        self._ends: tuple[socket.socket, socket.socket] | None = None  # ours, the server's
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper: threading.Thread | None = None
        self._code: int | None = None

    @property
    def pid(self) -> int | None:
        """The server's process id, while it runs."""
        return None if self._process is None else self._process.pid

    def warm_up(self) -> socket.socket:
        """Have it import everything now; what it is asked over."""
        with self._lock:
            if self._ends is None:
                self._code = None
                self._ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                self._process = _spawn(self._ends[1])
                self._keeper = threading.Thread(
                    target=self._restart, args=(self._process, *self._ends), daemon=True
                )
                self._keeper.start()
            return self._ends[0]

    def start(self, program: str = TRAINING) -> Child:
        """A process that is forked as soon as everything is imported."""
        return fork_or_start(self.warm_up(), program, lambda: self._code)

    def release(self) -> None:
        """No training process is needed for a while."""
        if not self._keep:
            self.close()

    def close(self) -> None:
        """End it, and its children."""
        with self._lock:
            ends, self._ends = self._ends, None
            process, self._process = self._process, None
        if ends is not None and process is not None and self._keeper is not None:
            process.kill()
            self._keeper.join()
            for end in ends:
                end.close()

    def _restart(
        self, process: subprocess.Popen[bytes], ours: socket.socket, theirs: socket.socket
    ) -> None:
        """Wait for its end; start it again, unless it cannot even import everything."""
        while True:
            assert process.stdout is not None
            with process.stdout as stdout:
                ready = self._wait_until_ready(stdout)
                stdout.read()
            code = process.wait()
            with self._lock:
                if self._ends != (ours, theirs):
                    return
                log.warning("the parent of the training processes died (%s)", death(code))
                if not ready:
                    self._code = code
                    self._ends = self._process = None
                    ours.close()
                    theirs.close()
                    return
                process = self._process = _spawn(theirs)

    @staticmethod
    def _wait_until_ready(stdout: IO[bytes]) -> bool:
        memory = stdout.readline()
        if memory:
            log.info("training processes can be forked at once; %d MB", int(memory) / 1e6)
        return bool(memory)


class InheritedForkServer:
    """The fork server of the process that started this one."""

    def __init__(self, file: int) -> None:
        os.set_inheritable(file, False)  # noqa: FBT003 - as the library has it
        self._server = socket.socket(fileno=file)

    def start(self, program: str = TRAINING) -> Child:
        """A process that is forked as soon as everything is imported."""
        return fork_or_start(self._server, program)

    def release(self) -> None:
        """Others use it as well."""

    def close(self) -> None:
        """Use it no more."""
        self._server.close()


def make_source(environment: Mapping[str, str], *, keep: bool) -> Source:
    """The fork server of the process that started this one, if it has handed one down, else
    one of our own; on systems other than Linux processes that are started."""
    if sys.platform != "linux":
        return StartedProcesses()
    file = environment.get(INHERITED, "")
    if not file:
        return ForkServer(keep=keep)
    try:
        return InheritedForkServer(_received(file) if "/" in file else int(file))
    except (ValueError, OSError) as error:
        raise UsageError(f"{INHERITED} is {file!r}, not an open socket: {error}") from error


@contextlib.contextmanager
def shared(path: Path) -> Iterator[None]:
    """A fork server for processes that cannot inherit its socket: they get it at this path."""
    with (
        contextlib.closing(ForkServer(keep=True)) as server,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        listener.bind(str(path))
        listener.listen()
        ours = server.warm_up()
        threading.Thread(target=_hand_out, args=(listener, ours), daemon=True).start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)  # closing does not end the wait for somebody


def _hand_out(listener: socket.socket, ours: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it is over
        while True:
            with listener.accept()[0] as connection:
                socket.send_fds(connection, [b"-"], [ours.fileno()])


def _received(path: str) -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        _, files, _, _ = socket.recv_fds(connection, 1, 1)
    if not files:
        raise OSError("its owner has none any more")
    return files[0]


def _spawn(requests: socket.socket) -> subprocess.Popen[bytes]:
    file = requests.fileno()
    return subprocess.Popen(
        python_module("common.worker.fork_server", str(file)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={**os.environ, **TUNING},
        pass_fds=(file,),
        start_new_session=True,  # Ctrl-C is for the owner
    )
