"""The whole testbed on one machine: a private broker, the boards as processes, one command.

Runs the same programs as a real fleet; everything it started ends with it. Only the training
processes of all boards are forked from one parent: torch is imported once.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from common.access.address import Address
from common.config import Experiment
from common.data.shards import ShardSet
from common.errors import BrokerError, FedbedError, UsageError
from common.experiment.resolve import participants_of
from common.program.child import dies_with_parent, python_module
from common.program.ports import free_port
from common.worker.forking import INHERITED, ForkServer
from fl_server.lab.relay import Relay

START_SECONDS = 20.0
STOP_SECONDS = 5.0
SHARDS = "shards"  # in the state of a board; in a lab the same for all

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LabBoard:
    """A board of a lab; `options` are more of its daemon's."""

    clients: tuple[int, ...]
    workers: int = 1
    options: tuple[str, ...] = ()


class Lab:
    """A broker and boards of our own; a context manager that leaves nothing running.

    With `on_relay`, a relay stands before every board; it is called with each new one.
    """

    def __init__(
        self,
        folder: Path,
        boards: Mapping[str, LabBoard],
        *,
        on_relay: Callable[[str, Relay], None] | None = None,
        data: Path | None = None,
        code: Path | None = None,
    ) -> None:
        where = () if data is None else ("--data", str(data.absolute()), "--class-counts")
        self._data = where
        self.folder = folder
        self.relays: dict[str, Relay] = {}
        self._on_relay = on_relay
        self._boards = boards
        self._code = () if code is None else ("--code", str(code))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._logs: list[IO[bytes]] = []
        self.address = Address()
        self._fork_server = ForkServer(keep=True) if sys.platform == "linux" else None

    def __enter__(self) -> Lab:
        try:
            if self._fork_server is not None:
                self._fork_server.warm_up()
            self.start_brokers()
            for board in self._boards:
                if self._on_relay is not None:
                    self.relays[board] = Relay(self.address.port)
                    self._on_relay(board, self.relays[board])
                self.start_board(board)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def boards(self) -> tuple[str, ...]:
        """The names of the boards."""
        return tuple(self._boards)

    def pid(self, name: str) -> int:
        """The process of a board, or of "broker"."""
        return self._processes[name].pid

    def start_brokers(self) -> None:
        """Start what boards connect to."""
        self.address = self.start_broker("broker")

    def start_broker(self, name: str) -> Address:
        """On a port that was free a moment ago; on another one if it has just been taken."""
        for _ in range(3):
            address = Address("127.0.0.1", free_port())
            if _answers(address, self.spawn_broker(name, address.port)):
                return address
            self._stop_one(name)
        raise BrokerError(f"the lab's {name} did not start: {self._last_line(name)}")

    def make_shards(self, experiment: Experiment) -> None:
        """Of all clients at once, if more boards than cores would each read the dataset."""
        several = len(self._boards) > (os.cpu_count() or 1)
        if several and experiment.data.partition != "local":
            clients = [client for board in self._boards.values() for client in board.clients]
            present = set(participants_of(experiment)).intersection(clients)
            ShardSet(self.folder / SHARDS, experiment).ensure(sorted(present))

    def start_board(self, board: str) -> None:
        """Start a board for the first time, or again after it has died."""
        shards = self.folder / board / SHARDS
        if not shards.exists():
            (self.folder / SHARDS).mkdir(parents=True, exist_ok=True)
            shards.parent.mkdir(exist_ok=True)
            shards.symlink_to(Path("..") / SHARDS)
        shared = self._fork_server.warm_up().fileno() if self._fork_server else None
        port = self.port_for(board)
        self.spawn(
            board,
            *("fl_client", "run", "--broker", f"127.0.0.1:{port}", "--board", board),
            *("--clients", ",".join(map(str, self._boards[board].clients))),
            *("--workers", str(self._boards[board].workers)),
            *("--state", str(self.folder / board)),
            *self._boards[board].options,
            *self._data,
            *self._code,
            shared=shared,
        )

    def port_for(self, board: str) -> int:
        """Where a board finds its broker."""
        relay = self.relays.get(board)
        return self.address.port if relay is None else relay.port

    def start_broker_again(self) -> None:
        """Start a killed broker on the port it had."""
        self.spawn_broker("broker", self.address.port)

    def spawn_broker(self, name: str, port: int) -> subprocess.Popen[bytes]:
        """A broker process."""
        folder = str(self.folder / name)
        return self.spawn(name, "broker", "up", "--port", str(port), "--folder", folder)

    def spawn(
        self, name: str, *arguments: str, shared: int | None = None
    ) -> subprocess.Popen[bytes]:
        """A process of the lab; `shared` is the fork server's socket."""
        self.folder.mkdir(parents=True, exist_ok=True)
        output = (self.folder / f"{name}.log").open("ab")
        self._logs.append(output)
        process = subprocess.Popen(
            python_module(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=os.environ if shared is None else {**os.environ, INHERITED: str(shared)},
            pass_fds=() if shared is None else (shared,),
            start_new_session=True,  # Ctrl-C is for the coordinator, which then stops the lab
            preexec_fn=dies_with_parent(),
        )
        self._processes[name] = process
        return process

    def wait(self, name: str) -> None:
        """Wait for the end of a process that was killed."""
        self._processes[name].wait(STOP_SECONDS)

    def check(self) -> None:
        """Raise if the broker or a board has ended by itself and cannot come back."""
        for name, process in self._processes.items():
            if process.poll() is not None and process.returncode > 0:
                raise FedbedError(f"{name} has ended: {self._last_line(name)}")

    def _last_line(self, name: str) -> str:
        """The last line of a process's log."""
        lines = (self.folder / f"{name}.log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "its log is empty"

    def killed(self) -> tuple[str, ...]:
        """Boards that a signal has ended."""
        return tuple(name for name in self.ended_by_signals() if name in self._boards)

    def ended_by_signals(self) -> tuple[str, ...]:
        """All processes that a signal has ended."""
        return tuple(n for n, process in self._processes.items() if (process.poll() or 0) < 0)

    def stop(self) -> None:
        """End every process: first politely, all at once, then surely."""
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                if sys.platform == "linux":
                    process.send_signal(signal.SIGCONT)  # a fault may have stopped it
        for name in reversed(list(self._processes)):
            self._stop_one(name)
        if self._fork_server is not None:
            self._fork_server.close()
        for relay in self.relays.values():
            relay.close()
        self.relays.clear()
        for output in self._logs:
            output.close()
        self._logs.clear()

    def _stop_one(self, name: str) -> None:
        process = self._processes.pop(name)
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            log.warning("%s did not stop in time and was killed", name)
            process.kill()
            process.wait()


def share_out(clients: Sequence[int], boards: int, workers: int = 1) -> dict[str, LabBoard]:
    """Clients to boards b1, b2, ...: neighbours together, sizes as equal as possible."""
    count = min(boards, len(clients))
    cuts = [len(clients) * at // count for at in range(count + 1)]
    return {
        f"b{at + 1}": LabBoard(tuple(clients[cuts[at] : cuts[at + 1]]), workers)
        for at in range(count)
    }


def descendants(pid: int) -> list[int]:
    """A process and all below it, the lowest first (Linux)."""
    tasks = Path(f"/proc/{pid}/task")
    found: list[int] = []
    for task in tasks.iterdir() if tasks.exists() else ():
        for child in (task / "children").read_text().split():
            found += descendants(int(child))
    return [*found, pid]


def _answers(address: Address, process: subprocess.Popen[bytes]) -> bool:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection((address.host, address.port), 1.0).close()
        except OSError:
            try:
                process.wait(0.02)
            except subprocess.TimeoutExpired:
                continue
        else:
            return True
    return False


def check_boards(folder: Path, boards: Iterable[str]) -> None:
    """Refuse to go on with other boards: clients would lose their state."""
    earlier = {path.parent.name for path in folder.glob("*/daemon.json")}
    if earlier and earlier != {*boards}:
        raise UsageError(f"{folder} was started with {len(earlier)} boards; go on with them")


def keep_only_logs(folder: Path) -> None:
    """Delete what only boards need, when nothing is left for them to do."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
