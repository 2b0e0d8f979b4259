"""The coordinator of a run as a process of its own: it can be killed and started again."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from common.access.address import Address
from common.errors import FedbedError
from common.program.child import dies_with_parent, python_module

STOP_SECONDS = 10.0


class ServerProcess:
    """`fl-server resume` of one run on one broker."""

    def __init__(self, run: Path, address: Address) -> None:
        self._command = [
            *python_module("fl_server", "resume", run.name, "--plain"),
            *("--runs", str(run.parent), "--broker", str(address)),
            *("--wait", "60", "--stay-paused"),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process, while it runs."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if running and self._process is not None else None

    def start(self) -> None:
        """Start it, unless it runs (two faults overlap) or has finished the run."""
        if self.pid is not None:
            return
        if self._process is not None and self._process.returncode == 0:
            return
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=dies_with_parent(),
        )

    def has_finished(self) -> bool:
        """Whether it has ended the run; FedbedError if it gave up."""
        if self._process is None or self._process.poll() is None:
            return False
        code = self._process.returncode
        if code > 0:
            raise FedbedError(f"the coordinator has ended with exit code {code}; see above")
        return code == 0

    def wait(self) -> None:
        """Wait for the end of a process that was killed."""
        if self._process is not None:
            self._process.wait()

    def end(self) -> None:
        """Stop it: first politely, then surely."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGCONT)  # a fault may have stopped it
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
