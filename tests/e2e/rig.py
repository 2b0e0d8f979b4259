"""A small real testbed for tests: daemons and coordinators as processes on a real broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from paho.mqtt import client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from common.arrays import digest
from common.experiment.file import load_experiment
from common.worker.forking import INHERITED, ForkServer
from fl_server.coordinator.local_clients import make_local_clients
from fl_server.coordinator.simulate import Simulation
from fl_server.run.journal import read_records
from fl_server.run.model.file import read_model
from fl_server.run.store import create_run

Files: TypeAlias = tuple[int, ...]
PATIENCE = 90.0  # generous: a loaded machine is ten times slower
TINY = """
[experiment]
rounds = 2
grace = "forever"
[model]
name = "dnn"
[data]
clients = 4
alpha = 1.0
[training]
epochs = 1
batch_size = 50
"""


def eventually(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> Any:
    """The first truthy value of a condition, or a failure that says what was waited for."""
    end, pause = time.monotonic() + seconds, 0.002
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, f"did not happen within {seconds} s: {what}"
        threading.Event().wait(pause)
        pause = min(2 * pause, 0.05)


@dataclass
class Ear:
    """Hears everything on a federation, and says things nobody should say."""

    client: mqtt.Client
    heard: list[tuple[str, bytes, bool, float]] = field(default_factory=list)

    def topics(self) -> set[str]:
        return {topic for topic, *_ in list(self.heard)}

    def messages(self, part: str) -> list[dict[str, Any]]:
        """The JSON messages on topics that contain a word."""
        found = [body for topic, body, *_ in list(self.heard) if part in topic and body]
        return [json.loads(body) for body in found]

    def say(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        self.client.publish(topic, payload, qos=1, retain=retain).wait_for_publish(10)


@dataclass
class Rig:
    """Processes of one test, on one broker; all end with the test.

    With a fork server, boards have no parent of training processes of their own, as in a lab.
    """

    port: int
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    ears: list[mqtt.Client] = field(default_factory=list)
    federation: str = "fl"
    fork_server: ForkServer | None = None

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    def start(self, name: str, *arguments: str, files: Files = ()) -> subprocess.Popen[bytes]:
        inherited = {INHERITED: str(files[0])} if files else {}
        with (self.folder / f"{name}.log").open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={**os.environ, "COLUMNS": "200", **inherited},
                pass_fds=files,
            )
        self.processes.append(process)
        return process

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def shared_files(self) -> Files:
        """What a board needs to have its training processes from the fork server."""
        return (self.fork_server.warm_up().fileno(),) if self.fork_server else ()

    def daemon(self, board: str, clients: str, *more: str) -> subprocess.Popen[bytes]:
        where = ("--broker", f"127.0.0.1:{self.port}", "--federation", self.federation)
        who = ("--board", board, "--clients", clients, "--state", str(self.folder / board))
        words = ("fl_client", "run", *where, *who, "--workers", "1", *more)
        return self.start(board, *words, files=self.shared_files())

    def write_experiment(self, text: str = TINY) -> Path:
        path = self.folder / "tiny.toml"
        path.write_text(text)
        return path

    def coordinator(self, *more: str, name: str = "server") -> subprocess.Popen[bytes]:
        where = ("--broker", f"127.0.0.1:{self.port}", "--federation", self.federation)
        return self.start(
            name,
            "fl_server",
            *("run", str(self.folder / "tiny.toml"), *where),
            *("--run", "r", "--runs", str(self.runs), "--plain", *more),
        )

    def simulate(self, *settings: str, name: str = "sim") -> str:
        """The digest of the same experiment without a broker, in this process."""
        experiment = load_experiment(self.folder / "tiny.toml", settings)
        store = create_run(self.runs, name, experiment)
        clients, shards = make_local_clients(1), self.folder / "shards"
        Simulation(store, clients=clients, shards=shards, observe=lambda _: None).run()
        return self.digest(name)

    def simulate_apart(self, *more: str, name: str = "sim") -> str:
        """The digest of the same experiment by the command, in a process of its own."""
        process = self.start(
            name,
            "fl_server",
            *("simulate", str(self.folder / "tiny.toml"), "--run", name),
            *("--runs", str(self.runs), "--plain", *more),
        )
        assert process.wait(PATIENCE) == 0, self.log(name)
        return self.digest(name)

    def digest(self, run: str = "r") -> str:
        return digest(read_model(self.runs / run / "model.safetensors"))

    def events(self, run: str = "r") -> list[dict[str, Any]]:
        return read_records(self.runs / run / "events.jsonl")

    def kinds(self, run: str = "r") -> list[str]:
        return [record["event"] for record in self.events(run)]

    def updates(self, run: str = "r") -> set[tuple[int, int]]:
        """(round, client) of every update that was taken.

        One that was stored an instant before a kill is told by the next start instead.
        """
        events = self.events(run)
        told = {(e["round"], e["client"]) for e in events if e["event"] == "update"}
        starts = [e for e in events if e["event"] == "started"]
        return told | {(e["done"] + 1, client) for e in starts for client in e["safe"]}

    def metrics(self, run: str = "r") -> list[dict[str, Any]]:
        return read_records(self.runs / run / "metrics.jsonl")

    def listen(self) -> Ear:
        client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        ear = Ear(client)
        ready = threading.Event()

        def hear(_c: mqtt.Client, _d: object, message: mqtt.MQTTMessage) -> None:
            ear.heard.append(
                (message.topic, bytes(message.payload), message.retain, time.monotonic())
            )

        client.on_message = hear

        def subscribe(*_: object) -> None:
            client.subscribe(f"{self.federation}/#", qos=1)

        client.on_connect = subscribe
        client.on_subscribe = lambda *_: ready.set()
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        assert ready.wait(10)
        self.ears.append(client)
        return ear

    def finish(self, process: subprocess.Popen[bytes], name: str = "server") -> None:
        """Wait for a clean end."""
        assert process.wait(PATIENCE) == 0, self.log(name)

    def close(self) -> None:
        for ear in self.ears:
            ear.disconnect()
            ear.loop_stop()
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def children(pid: int) -> list[int]:
    """Processes whose parent is this one."""
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):  # it, or one of its threads, ends
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def command_of(pid: int) -> bytes:
    """The words a process was started with; none when it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    return [pid, *(below for child in children(pid) for below in family(child))]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state != "Z"


def memory(pid: int) -> int:
    """Resident memory in bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def boards(rig: Rig, spread: Sequence[str]) -> list[subprocess.Popen[bytes]]:
    """Daemons b1, b2, ... with these clients."""
    return [rig.daemon(f"b{at + 1}", ids) for at, ids in enumerate(spread)]
