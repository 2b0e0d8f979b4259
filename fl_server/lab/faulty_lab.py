"""A lab in which things go wrong on purpose, as a fault script says.

The coordinator is a process of its own here, so that it can be killed like everybody else.
What was done, and how long it took to recover, goes to the event log.
"""

from __future__ import annotations

import heapq
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from common.errors import FedbedError
from common.rng import generator
from fl_server.lab.damage import board_file, damage, server_file
from fl_server.lab.fault_script import Fault, Script, aimed, drawn
from fl_server.lab.lab import Lab, descendants, die_with_parent
from fl_server.lab.outlook import Watcher
from fl_server.lab.relay import Shape
from fl_server.run.store import RunStore

LOOK_SECONDS = 0.05
SLOW = Shape(delay=0.2, rate=2e6)
GIVE_UP_SECONDS = 60.0

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


@dataclass(order=True, slots=True)
class _Later:
    at: float
    number: int
    do: Callable[[], None] = field(compare=False)


class FaultyLab:
    """Runs one experiment in a lab while a script's faults happen to it."""

    def __init__(
        self, store: RunStore, lab: Lab, script: Script, say: Callable[[str], None]
    ) -> None:
        self.outcomes: list[Outcome] = []
        self._store = store
        self._lab = lab
        self._script = script
        self._say = say
        self._later: list[_Later] = []
        self._counter = 0
        self._waiting = [(f, n) for n, f in enumerate(script.fault)]
        self._by_chance = drawn(script, lab.boards)
        self._next = next(self._by_chance, None)
        self._next_at = time.monotonic() + (self._next[0] if self._next else 0.0)
        self._watcher = Watcher(lab.address)
        self._server: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def stop(self) -> None:
        """End early; from a signal handler."""
        self._stopped = True

    def run(self) -> bool:
        """Run to the end, whatever happens; False if `stop` came first."""
        self._start_server()
        try:
            while not self._stopped:
                self._watcher.look(LOOK_SECONDS)
                self._do_what_is_due()
                self._begin_faults()
                self._note_recoveries()
                if self._server_has_finished():
                    return True
            return False
        finally:
            self._end_server()
            self._watcher.close()

    def recovered(self) -> list[tuple[str, str, float]]:
        """Kind, target and recovery of every fault that is over."""
        return [
            (o.fault.kind, o.fault.target, o.recovery)
            for o in self.outcomes
            if o.recovery is not None
        ]

    # the coordinator

    def _start_server(self) -> None:
        command = [
            *(sys.executable, "-m", "fl_server", "resume", self._store.folder.name, "--plain"),
            *("--runs", str(self._store.folder.parent), "--broker", str(self._lab.address)),
            *("--wait", "60"),
        ]
        self._server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )

    def _server_has_finished(self) -> bool:
        if self._server is None or self._server.poll() is None:
            return False
        code = self._server.returncode
        if code > 0:
            raise FedbedError(f"the coordinator has ended with exit code {code}; see above")
        return code == 0

    def _end_server(self) -> None:
        if self._server is not None and self._server.poll() is None:
            self._server.send_signal(signal.SIGCONT)
            self._server.terminate()
            try:
                self._server.wait(10)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()

    # when

    def _schedule(self, seconds: float, do: Callable[[], None]) -> None:
        self._counter += 1
        heapq.heappush(self._later, _Later(time.monotonic() + seconds, self._counter, do))

    def _do_what_is_due(self) -> None:
        while self._later and self._later[0].at <= time.monotonic():
            heapq.heappop(self._later).do()

    def _begin_faults(self) -> None:
        outlook = self._watcher.outlook
        for item in list(self._waiting):
            fault, number = item
            if fault.round and (fault.round, fault.phase) not in outlook.reached:
                continue
            if not fault.round and not outlook.round:
                continue
            self._waiting.remove(item)
            exact = aimed(fault, self._lab.boards, self._script.seed, number)
            self._schedule(fault.after, lambda exact=exact: self._begin(exact))  # type: ignore[misc]
        if self._next is None or not outlook.round or time.monotonic() < self._next_at:
            return
        fault = self._next[1]
        if any(o.fault.target == fault.target and o.recovery is None for o in self.outcomes):
            return  # one thing at a time for each
        self._begin(fault)
        self._next = next(self._by_chance, None)
        self._next_at = time.monotonic() + (self._next[0] if self._next else 0.0)

    def _note_recoveries(self) -> None:
        now = time.monotonic()
        for outcome in self.outcomes:
            if outcome.recovery is not None or outcome.ended is None:
                continue
            if self._has_recovered(outcome):
                outcome.recovery = now - outcome.ended
                self._record(outcome)
            elif now - outcome.ended > GIVE_UP_SECONDS:
                outcome.recovery = GIVE_UP_SECONDS
                outcome.note = "no sign of recovery"
                self._record(outcome)

    def _has_recovered(self, outcome: Outcome) -> bool:
        assert outcome.ended is not None
        outlook, target = self._watcher.outlook, outcome.fault.target
        if outlook.ended:
            return True
        killed = outcome.fault.kind in ("kill", "corrupt", "wipe")
        if killed and self._life(target) <= outcome.life:
            return False
        if killed and target == "server":
            return True
        if target == "broker" or outcome.fault.kind == "duplicate":
            return any(s.worked > outcome.ended for s in outlook.seen.values())
        sighting = outlook.seen.get(target)
        if sighting is None:
            return False
        at = (
            sighting.worked
            if target == "server" or outlook.has_work(target)
            else sighting.heard
        )
        return at > outcome.ended

    def _life(self, target: str) -> int:
        if target == "server":
            return self._watcher.outlook.incarnation
        if target == "broker":
            return self._watcher.connections
        return self._watcher.outlook.starts.get(target, 0)

    def _record(self, outcome: Outcome) -> None:
        fault = outcome.fault
        fact = {
            "event": "fault",
            "kind": fault.kind,
            "target": fault.target,
            "seconds": fault.seconds,
            "recovery": round(outcome.recovery or 0.0, 3),
            "text": f"fault: {fault.kind} {fault.target}: recovered after "
            f"{outcome.recovery:.1f} s {outcome.note}".rstrip(),
            "time": round(time.time(), 3),
        }
        with (self._store.folder / "events.jsonl").open("ab") as file:
            file.write(msgspec.json.encode(fact) + b"\n")
        self._say(str(fact["text"]))

    # what

    def _begin(self, fault: Fault) -> None:
        outcome = Outcome(fault, self._life(fault.target))
        self.outcomes.append(outcome)
        self._say(f"fault: {fault.kind} {fault.target} (round {self._watcher.outlook.round})")
        undo = self._undo_of(fault, outcome)

        def end() -> None:
            undo()
            outcome.ended = time.monotonic()

        self._schedule(fault.seconds, end)

    def _undo_of(self, fault: Fault, outcome: Outcome) -> Callable[[], None]:
        """Do the fault; what is returned ends it."""
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
                self._watcher.start_parrot()
                return lambda: self._note_parrot(outcome)

    def _note_parrot(self, outcome: Outcome) -> None:
        outcome.note = f"({self._watcher.stop_parrot()} messages repeated)"

    def _pids(self, target: str) -> list[int]:
        if target == "server":
            return [self._server.pid] if self._server and self._server.poll() is None else []
        pid = self._lab.pid(target)
        return descendants(pid) if target == "broker" else [pid]

    def _signal(self, target: str, number: int) -> None:
        for pid in self._pids(target):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                log.info("%s (process %d) is already gone", target, pid)

    def _kill(self, target: str) -> None:
        self._signal(target, signal.SIGKILL)
        if target == "server" and self._server is not None:
            self._server.wait()
        elif target != "server":
            self._lab.wait(target)

    def _start(self, target: str) -> None:
        if target == "server":
            if not (self._server and self._server.returncode == 0):
                self._start_server()
        elif target == "broker":
            self._lab.start_broker_again()
        else:
            self._lab.start_board(target)

    def _corrupt(self, target: str) -> str:
        run, number = self._store.folder, self._watcher.outlook.round
        state = self._lab.folder / target
        path = server_file(run) if target == "server" else board_file(state, number)
        if path is None:
            return "(nothing to damage)"
        how = damage(path, generator(self._script.seed, "damage", len(self.outcomes)))
        return f"({_short(path)} {how})"


def _short(path: Path) -> str:
    return "/".join(path.parts[-3:])


@dataclass(frozen=True, slots=True)
class Recovery:
    """How a kind of fault went."""

    kind: str
    target: str
    count: int
    median: float
    worst: float


def recoveries(found: Iterable[tuple[str, str, float]]) -> list[Recovery]:
    """From (kind, target, seconds) of all faults: how many of each kind, median and worst."""
    groups: dict[tuple[str, str], list[float]] = {}
    for kind, target, seconds in found:
        who = target if target in ("server", "broker") else "board"
        groups.setdefault((kind, who), []).append(seconds)
    return [
        Recovery(kind, who, len(times), sorted(times)[len(times) // 2], max(times))
        for (kind, who), times in sorted(groups.items())
    ]
