"""A sweep on a cluster: whole runs are its tasks, as many at once as there are threads.

Not turns: a sweep has runs enough to keep all workers busy, and a run that stays on its worker
needs nothing from elsewhere between its rounds. It is handed out in slices of some minutes;
after each its folder comes back, so that no more than a slice is lost with a worker.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from common.disk.lock import FolderLock
from common.errors import FedbedError
from common.worker.remote import versions
from fl_server import launch
from fl_server.coordinator.dask_cluster import Cluster
from fl_server.run.find import find_or_create
from fl_server.sweeps.folders import packed, unpack
from fl_server.sweeps.grid import Planned
from fl_server.sweeps.runner import Outcome, is_finished, outcome_of
from fl_server.sweeps.screen import SweepDisplay, pace_of
from fl_server.sweeps.slice_process import SliceDone
from fl_server.sweeps.slices import Slice, go_on, stop
from fl_server.watch.words import duration

if TYPE_CHECKING:
    from distributed import Future

SLICE_SECONDS = 300.0
SHOW_SECONDS = 10.0
STOP_SECONDS = 60.0  # for the folders of runs that are stopped
HOME = ".cluster"


def run_on_cluster(
    cluster: Cluster, options: launch.RunOptions, grid: Sequence[Planned]
) -> Outcome:
    """Do what is not yet finished; a run that fails is reported, and the rest goes on."""
    with FolderLock(options.runs / HOME, "a sweep"):
        sweep = _Sweep(cluster, options, grid)
        try:
            sweep.run()
        except KeyboardInterrupt:
            sweep.stop()
            return outcome_of(options, sweep.finished, sweep.failed, interrupted=True)
        finished = [planned for planned in grid if planned in sweep.finished]
        return outcome_of(options, finished, sweep.failed, interrupted=False)


class _Sweep:
    def __init__(
        self, cluster: Cluster, options: launch.RunOptions, grid: Sequence[Planned]
    ) -> None:
        self.finished = [planned for planned in grid if is_finished(options.runs, planned)]
        self.failed: dict[str, str] = {}
        self._todo = deque(planned for planned in grid if planned not in self.finished)
        self._cluster = cluster
        self._options = options
        self._total = len(grid)
        self._name = f"sweep-{secrets.token_hex(6)}"
        self._running: dict[Future[bytes], Planned] = {}
        self._rounds = {planned.name: 0 for planned in self._todo}  # done since the start
        self._first: dict[str, int] = {}
        self._left = sum(planned.experiment.experiment.rounds for planned in self._todo)
        self._display = SweepDisplay(pace_of(self.finished, list(self._todo)), options.style)
        self._started = self._shown = time.monotonic()
        cluster.listen(self._name, self._note)

    def run(self) -> None:
        """Until all runs have ended."""
        if self.finished:
            self._write(f"{len(self.finished)} of {self._total} runs are finished already")
        while self._todo or self._running:
            while self._todo and len(self._running) < sum(self._cluster.workers().values()):
                self._start(self._todo.popleft())
            task = self._cluster.next_done()
            if task is not None and task in self._running:
                self._take(self._running.pop(task), task)
            if time.monotonic() > self._shown + SHOW_SECONDS:
                self._write(f"sweep: {self._where()}")
        self._write(f"sweep: {self._where()}")

    def stop(self) -> None:
        """Have all runs end after their rounds, and take what they did."""
        self._write("stopping: the runs end after their rounds (Ctrl-C again: at once)")
        self._todo.clear()
        end = time.monotonic() + STOP_SECONDS
        try:
            self._cluster.everywhere(stop, self._name)
            while self._running and time.monotonic() < end:
                task = self._cluster.next_done()
                if task is not None and task in self._running:
                    self._take(self._running.pop(task), task)
                    self._todo.clear()
        except KeyboardInterrupt:
            pass
        self._cluster.forget(list(self._running))

    def _start(self, planned: Planned) -> None:
        store = find_or_create(self._options.runs, planned.experiment, planned.name)
        order = Slice(
            sweep=self._name,
            run=planned.name,
            shards=str(self._options.shards.absolute()) if self._cluster.local else "",
            seconds=SLICE_SECONDS,
            versions=versions(),
        )
        folder = self._cluster.keep(packed(store.folder))
        task = self._cluster.start(go_on, msgspec.json.encode(order), folder)
        self._running[task] = planned

    def _take(self, planned: Planned, task: Future[bytes]) -> None:
        try:
            data = self._cluster.result(task, f"run {planned.name}")
        except FedbedError as error:
            done = SliceDone(finished=False, problem=str(error))
        else:
            line, _, folder = data.partition(b"\n")
            done = msgspec.json.decode(line, type=SliceDone)
            unpack(folder, self._options.runs / planned.name)
        if done.problem:
            self.failed[planned.name] = done.problem
            self._write(f"{planned.name} failed: {done.problem}")
        elif done.finished:
            self.finished.append(planned)
            self._write(f"{planned.name}: finished; {self._where()}")
        else:
            self._todo.appendleft(planned)

    def _note(self, text: str) -> None:
        """A round of a run has closed."""
        name, _, round_number = text.rpartition(" ")
        first = self._first.setdefault(name, int(round_number) - 1)
        self._rounds[name] = max(self._rounds[name], int(round_number) - first)

    def _where(self) -> str:
        done, now = sum(self._rounds.values()), time.monotonic()
        left = max(0, self._left - done - sum(self._first.values()))
        about = f", about {duration((now - self._started) / done * left)} left" if done else ""
        failed = f", {len(self.failed)} failed" if self.failed else ""
        ended = len(self.finished) + len(self.failed)
        running = f", {len(self._running)} at work" if self._running else ""
        return f"{ended}/{self._total} runs done{failed}{running}{about if left else ''}"

    def _write(self, text: str) -> None:
        self._shown = time.monotonic()
        self._display.write(text)
