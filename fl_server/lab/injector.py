"""Does the faults of a script to the processes, links and files of a lab, and undoes them."""

from __future__ import annotations

import logging
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from common.rng import generator
from fl_server.lab.damage import board_file, damage, server_file
from fl_server.lab.fault_script import Fault
from fl_server.lab.lab import Lab, descendants
from fl_server.lab.outlook import Watcher
from fl_server.lab.relay import Shape
from fl_server.lab.server_process import ServerProcess

SLOW = Shape(delay=0.2, rate=2e6)

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Outcome:
    """One fault that was done; `recovery` is from its end to the target's next sign of work.

    `life` counts the lives of the target: a killed one has recovered in its next life only.
    """

    fault: Fault
    life: int
    ended: float | None = None
    recovery: float | None = None
    note: str = ""


class Injector:
    """What can be done to a lab and its coordinator."""

    def __init__(
        self, run: Path, lab: Lab, server: ServerProcess, watcher: Watcher, seed: int
    ) -> None:
        self._run = run
        self._lab = lab
        self._server = server
        self._watcher = watcher
        self._seed = seed
        self._damaged = 0

    def inject(self, outcome: Outcome) -> Callable[[], None]:
        """Do a fault; what is returned ends it. Both may add a note to the outcome."""
        fault = outcome.fault
        relay = self._lab.relays.get(fault.target)
        match fault.kind:
            case "kill" | "wipe" | "corrupt":
                self._kill(fault.target)
                if fault.kind == "wipe":
                    shutil.rmtree(self._lab.folder / "broker", ignore_errors=True)
                if fault.kind == "corrupt":
                    outcome.note = self._corrupt(fault.target)
                return lambda: self._start(fault.target)
            case "stop":
                self._signal(fault.target, signal.SIGSTOP)
                return lambda: self._signal(fault.target, signal.SIGCONT)
            case "cut" | "freeze" | "slow":
                assert relay is not None
                if fault.kind == "slow":
                    relay.shape = SLOW
                elif fault.kind == "cut":
                    relay.cut()
                else:
                    relay.freeze()
                return relay.restore
            case "duplicate":
                self._watcher.start_recording()
                return lambda: self._repeat(outcome)

    def _repeat(self, outcome: Outcome) -> None:
        outcome.note = f"({self._watcher.repeat_recorded()} messages repeated)"

    def _pids(self, target: str) -> list[int]:
        if target == "server":
            return [self._server.pid] if self._server.pid is not None else []
        pid = self._lab.pid(target)
        return descendants(pid) if target == "broker" else [pid]

    def _signal(self, target: str, signal_number: int) -> None:
        for pid in self._pids(target):
            try:
                os.kill(pid, signal_number)
            except ProcessLookupError:
                log.info("%s (process %d) is already gone", target, pid)

    def _kill(self, target: str) -> None:
        self._signal(target, signal.SIGKILL)
        if target == "server":
            self._server.wait()
        else:
            self._lab.wait(target)

    def _start(self, target: str) -> None:
        if target == "server":
            self._server.start()
        elif target == "broker":
            self._lab.start_broker_again()
        else:
            self._lab.start_board(target)

    def _corrupt(self, target: str) -> str:
        state, round_number = self._lab.folder / target, self._watcher.outlook.round
        path = server_file(self._run) if target == "server" else board_file(state, round_number)
        if path is None:
            return "(nothing to damage)"
        self._damaged += 1
        how = damage(path, generator(self._seed, "damage", self._damaged))
        return f"({'/'.join(path.parts[-3:])} {how})"
