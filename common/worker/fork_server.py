"""The parent of training processes: it has imported torch, runs nothing, and forks.

    python -m common.worker.fork_server FD [start]

Over the socket FD comes one packet per process: the name of its program (a module with a
function `work`), and four files: its stdin, stdout and stderr, and a socket over which its
process id and its exit code are sent. Who closes the other end of that socket, or dies, ends
the process. The server ends when FD does, and its children with it. It has one thread and never
uses the GPU: where there is one, or where importing has left threads behind, processes are not
forked but started (`start`), as nothing is shared then.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import resource
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from common.algorithms import BUILDERS
from common.program.child import dies_with_parent, python_module
from common.worker.children import TRAINING

FILES = 4
LONGEST_NAME = 200


def _import_everything() -> None:
    """What a training process needs, except what users bring along."""
    for name in (TRAINING, "common.worker.executor", *BUILDERS.values()):  # one imports torch
        importlib.import_module(name.partition(":")[0])


def _can_fork() -> bool:
    """Whether a fork of this process can train: one thread, and no GPU (a fork looks)."""
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        return False
    pid = os.fork()
    if pid == 0:
        from common.learning.device import device

        os._exit(device().type != "cpu")
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _forked(program: str) -> NoReturn:
    import numpy

    numpy.random.seed()  # Python's own generator does it by itself, torch's is the same always
    sys.modules[program].work()
    os._exit(0)


def _started(program: str) -> NoReturn:
    _replace_by(program)


def _replace_by(module: str, *arguments: str) -> NoReturn:
    os.execv(sys.executable, python_module(module, *arguments))  # noqa: S606


class Server:
    """Forks children, sends what becomes of them, and kills those that nobody wants."""

    def __init__(
        self,
        requests: socket.socket,
        become: Callable[[str], NoReturn],
        load: Callable[[str], object],
    ) -> None:
        self._requests = requests
        self._become = become
        self._load = load  # here, so that it is done once for all children
        self._children: dict[int, socket.socket] = {}
        self._woken, self._waker = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for each in (self._requests, self._woken):
            each.settimeout(0)
            self._selector.register(each, selectors.EVENT_READ)
        self._waker.settimeout(0)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._die_with_us = dies_with_parent()

    def serve(self) -> None:
        """Until nobody is left who could ask for a process."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._woken:
                    self._woken.recv(4096)
                    self._report_ended()
                elif key.data is not None:
                    self._kill(key.data)
                elif not self._take_request():
                    signal.set_wakeup_fd(-1)  # its socket goes before the last child does
                    return

    def _take_request(self) -> bool:
        try:
            packet, files, _, _ = socket.recv_fds(self._requests, LONGEST_NAME, FILES)
        except BlockingIOError:
            return True
        if packet and len(files) == FILES:
            *standard, control = files
            with contextlib.ExitStack() as ours:
                for file in standard:
                    ours.callback(os.close, file)
                self._fork(packet.decode(), standard, socket.socket(fileno=control))
        else:
            for file in files:
                os.close(file)
        return bool(packet)

    def _fork(self, program: str, standard: list[int], control: socket.socket) -> None:
        control.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            if not control.recv(1):  # it was given up in the meantime
                control.close()
                return
        try:
            self._load(program)
            pid = os.fork()
        except (OSError, ImportError) as error:
            os.write(standard[2], f"cannot fork {program}: {error}\n".encode())
            control.close()
            return
        if pid == 0:
            self._be_child(program, standard, control)
        self._children[pid] = control
        self._selector.register(control, selectors.EVENT_READ, pid)
        self._send(control, pid)

    def _be_child(self, program: str, standard: list[int], control: socket.socket) -> NoReturn:
        try:
            if self._die_with_us is not None:
                self._die_with_us()
            signal.set_wakeup_fd(-1)
            for each in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
                signal.signal(each, signal.SIG_DFL)
            for target, file in enumerate(standard):
                os.dup2(file, target)
                os.close(file)
            self._selector.close()
            held = (self._requests, self._woken, self._waker, *self._children.values())
            for each_socket in (control, *held):
                each_socket.close()
            self._become(program)
        except BaseException:  # noqa: BLE001 - nothing may get back into the server's loop
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(1)

    def _kill(self, pid: int) -> None:
        """Its owner has closed the control socket or died; the exit code follows as always."""
        self._selector.unregister(self._children[pid])
        os.kill(pid, signal.SIGKILL)  # not reaped yet, so this is still its process id

    def _report_ended(self) -> None:
        with contextlib.suppress(ChildProcessError):  # there are no more
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                control = self._children.pop(ended[0])
                with contextlib.suppress(KeyError):
                    self._selector.unregister(control)
                self._send(control, os.waitstatus_to_exitcode(ended[1]))
                control.close()

    @staticmethod
    def _send(control: socket.socket, value: int) -> None:
        with contextlib.suppress(OSError):  # its owner is gone
            control.send(str(value).encode())


def main() -> None:
    """Import, say on stdout how much memory that takes, and serve."""
    for each in (signal.SIGINT, signal.SIGTERM):  # they are for the owner, with whom we end
        signal.signal(each, signal.SIG_IGN)
    file, start = sys.argv[1], sys.argv[2:] == ["start"]
    if not start:
        _import_everything()
        if not _can_fork():
            _replace_by("common.worker.fork_server", file, "start")
        gc.collect()
        gc.freeze()  # or every child copies what its garbage collector looks at
    sys.stdout.write(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}\n")
    sys.stdout.flush()
    with socket.socket(fileno=int(file)) as requests:
        if start:
            Server(requests, _started, str).serve()  # it imports its program by itself
        else:
            Server(requests, _forked, importlib.import_module).serve()


if __name__ == "__main__":
    main()
