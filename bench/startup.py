"""A daemon from its start to `connected`, and its memory while idle."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import time
from pathlib import Path

from paho.mqtt import client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from bench.figures import Effort, Figure, figure, interleaved, median, rounded
from bench.testbed import environment, own_broker, process

PATIENCE = 60.0


def measure(folder: Path, effort: Effort) -> list[Figure]:
    """Both figures."""
    with own_broker(folder / "broker") as address:
        daemons = _Daemons(folder, address.port)
        found = interleaved(
            {"daemon": daemons.start, "import torch": _import_torch}, effort.pick(7, 3)
        )
        daemons.close()
    return [
        figure(
            "startup",
            "daemon, start to connected",
            against="importing torch",
            value=median(found["daemon"]) / median(found["import torch"]),
            limit=("at most", 1.2),
            details={name: rounded(values) for name, values in found.items()},
        ),
        figure(
            "startup",
            "daemon, resident memory while idle, MB",
            against="60 MB",
            value=median(daemons.memory),
            limit=("at most", 60.0),
        ),
    ]


def _import_torch() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True, env=environment())
    return time.perf_counter() - started


class _Daemons:
    """Starts one daemon after another and waits for its word on topic 2."""

    def __init__(self, folder: Path, port: int) -> None:
        self.memory: list[float] = []
        self._folder = folder
        self._port = port
        self._count = 0
        self._heard: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._ear = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self._ear.on_message = lambda _c, _d, message: self._heard.put(message.topic)
        self._ear.on_subscribe = lambda *_: self._heard.put("subscribed")
        self._ear.on_connect = self._subscribe
        self._ear.connect("127.0.0.1", port)
        self._ear.loop_start()
        self._wait_for("subscribed")

    def _subscribe(self, *_: object) -> None:
        self._ear.subscribe("fl/client/connected/+", qos=1)

    def _wait_for(self, word: str) -> None:
        while self._heard.get(timeout=PATIENCE) != word:
            pass

    def start(self) -> float:
        """Seconds until it is connected."""
        self._count += 1
        name = f"h{self._count}"
        where = ("--broker", f"127.0.0.1:{self._port}", "--state", str(self._folder / name))
        words = ("-m", "fl_client", "run", "--board", name, "--clients", "0", "-q", *where)
        started = time.perf_counter()
        with process(*words) as daemon:
            self._wait_for(f"fl/client/connected/{name}")
            seconds = time.perf_counter() - started
            self.memory.append(_resident(daemon.pid))
        return seconds

    def close(self) -> None:
        """Stop listening."""
        self._ear.disconnect()
        self._ear.loop_stop()


def _resident(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
