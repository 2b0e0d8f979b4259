"""A board's sensors beside its work: read in a thread of their own, so that nothing waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from common.program.arithmetic import arithmetic
from common.wire.messages import ClientMetrics, Info, Telemetry
from fl_client.agent.state import Job
from fl_client.hardware.energy import EnergyMeter
from fl_client.hardware.sensors import Sensors

SAMPLE_SECONDS = 5.0


class Gauges:
    """The newest readings, and the energy of each training."""

    def __init__(self, disk: Path, sensors: Sensors | None = None) -> None:
        self.telemetry: Telemetry | None = None
        self._sensors = sensors if sensors is not None else Sensors(disk)
        self._meter = EnergyMeter()
        self._arithmetic = arithmetic()
        self._closed = threading.Event()

    def start(self) -> None:
        """Read the sensors from now on, in a thread."""
        threading.Thread(target=self._read, name="sensors", daemon=True).start()

    def _read(self) -> None:
        while True:
            self.telemetry = self._sensors.read()
            if self._closed.wait(SAMPLE_SECONDS):
                return

    def stamp(self, message: Info | ClientMetrics) -> Info | ClientMetrics:
        """News of a client, with how the board is."""
        if isinstance(message, ClientMetrics):
            return message
        by = self._arithmetic if message.state == "trained" else ""
        return msgspec.structs.replace(message, telemetry=self.telemetry, arithmetic=by)

    def tick(self, jobs: Mapping[int, Job]) -> None:
        """Time has passed, or which jobs run is about to change."""
        training = [job_id for job_id, job in jobs.items() if job.kind == "train"]
        watts = self._sensors.watts() if training else None
        self._meter.sample(time.monotonic(), watts, training)

    def ended(self, job_id: int, jobs: Mapping[int, Job]) -> float | None:
        """The energy in joules of a training that is done, if the board measures power."""
        self.tick(jobs)
        return self._meter.take(job_id)

    def close(self) -> None:
        """Read no more."""
        self._closed.set()
