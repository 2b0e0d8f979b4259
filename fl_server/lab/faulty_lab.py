"""A lab in which things go wrong on purpose, by a fault script.

The coordinator is a process of its own here, so that it can be killed as well. What was done,
and how long it took to recover, goes to the event log.
"""

from __future__ import annotations

import heapq
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from common.errors import ConfigError
from fl_server.lab.fault_script import Fault, Script, aimed, drawn, parse_script
from fl_server.lab.injector import Injector, Outcome
from fl_server.lab.lab import Lab
from fl_server.lab.outlook import Watcher
from fl_server.lab.server_process import ServerProcess
from fl_server.run.store import RunStore
from fl_server.watch import facts
from fl_server.watch.facts.making import encode, stamped

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LOOK_SECONDS = 0.05
GIVE_UP_SECONDS = 60.0


@dataclass(order=True, slots=True)
class _Later:
    at: float
    order: int
    do: Callable[[], None] = field(compare=False)


class FaultyLab:
    """Runs one experiment in a lab while a script's faults happen to it."""

    def __init__(
        self, store: RunStore, lab: Lab, script: Script, write: Callable[[str], None]
    ) -> None:
        self.outcomes: list[Outcome] = []
        self._store = store
        self._lab = lab
        self._script = script
        self._write = write
        self._later: list[_Later] = []
        self._counter = 0
        self._waiting = [(f, n) for n, f in enumerate(script.fault)]
        self._by_chance = drawn(script, lab.boards)
        self._next = next(self._by_chance, None)
        self._next_at = time.monotonic() + (self._next[0] if self._next else 0.0)
        self._watcher = Watcher(lab.address)
        self._server = ServerProcess(store.folder, lab.address)
        self._injector = Injector(store.folder, lab, self._server, self._watcher, script.seed)
        self._stopped = False

    def stop(self) -> None:
        """End early; from a signal handler."""
        self._stopped = True

    def run(self) -> bool:
        """Run to the end, whatever happens; False if `stop` came first."""
        self._server.start()
        try:
            while not self._stopped:
                self._watcher.look(LOOK_SECONDS)
                self._do_what_is_due()
                self._begin_faults()
                self._note_recoveries()
                if self._server.has_finished():
                    return True
            return False
        finally:
            self._server.end()
            self._watcher.close()

    def recovered(self) -> list[tuple[str, str, float]]:
        """Kind, target and recovery of every fault that is over."""
        return [
            (o.fault.kind, o.fault.target, o.recovery)
            for o in self.outcomes
            if o.recovery is not None
        ]

    # beginning and ending faults

    def _schedule(self, seconds: float, do: Callable[[], None]) -> None:
        self._counter += 1
        heapq.heappush(self._later, _Later(time.monotonic() + seconds, self._counter, do))

    def _do_what_is_due(self) -> None:
        while self._later and self._later[0].at <= time.monotonic():
            heapq.heappop(self._later).do()

    def _begin_faults(self) -> None:
        outlook = self._watcher.outlook
        for item in list(self._waiting):
            fault, order = item
            if fault.round and (fault.round, fault.phase) not in outlook.reached:
                continue
            if not fault.round and not outlook.round:
                continue
            self._waiting.remove(item)
            exact = aimed(fault, self._lab.boards, self._script.seed, order)
            self._schedule(fault.after, lambda exact=exact: self._begin(exact))  # type: ignore[misc]
        if self._next is None or not outlook.round or time.monotonic() < self._next_at:
            return
        fault = self._next[1]
        if any(o.fault.target == fault.target and o.recovery is None for o in self.outcomes):
            return  # one fault at a time for each target
        self._begin(fault)
        self._next = next(self._by_chance, None)
        self._next_at = time.monotonic() + (self._next[0] if self._next else 0.0)

    def _begin(self, fault: Fault) -> None:
        outcome = Outcome(fault, self._life(fault.target))
        self.outcomes.append(outcome)
        self._write(f"fault: {fault.kind} {fault.target} (round {self._watcher.outlook.round})")
        undo = self._injector.inject(outcome)

        def end() -> None:
            undo()
            outcome.ended = time.monotonic()

        self._schedule(fault.seconds, end)

    # recoveries

    def _note_recoveries(self) -> None:
        now = time.monotonic()
        for outcome in self.outcomes:
            if outcome.recovery is not None or outcome.ended is None:
                continue
            if self._has_recovered(outcome):
                self._record(outcome, now - outcome.ended)
            elif now - outcome.ended > GIVE_UP_SECONDS:
                outcome.note = "no sign of recovery"
                self._record(outcome, GIVE_UP_SECONDS)

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
        working = target == "server" or outlook.has_work(target)
        return (sighting.worked if working else sighting.seen) > outcome.ended

    def _life(self, target: str) -> int:
        if target == "server":
            return self._watcher.outlook.incarnation
        if target == "broker":
            return self._watcher.connections
        return self._watcher.outlook.starts.get(target, 0)

    def _record(self, outcome: Outcome, recovery: float) -> None:
        outcome.recovery = recovery
        fault = outcome.fault
        text = f"fault: {fault.kind} {fault.target}: recovered after {recovery:.1f} s"
        fact = facts.Fault(
            kind=fault.kind,
            target=fault.target,
            seconds=fault.seconds,
            recovery=round(recovery, 3),
            text=f"{text} {outcome.note}".rstrip(),
        )
        with (self._store.folder / "events.jsonl").open("ab") as file:
            file.write(encode(stamped(fact, time.time())) + b"\n")
        self._write(fact.text)


def read_script(path: Path, boards: Sequence[str]) -> Script:
    """A fault file, checked; `boards` are the names of the lab's boards."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    try:
        return parse_script(table, boards)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
