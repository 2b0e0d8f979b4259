"""What every run has while it goes on: its folder locked, its log, its display and page."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from common.access.address import Address
from common.disk.lock import FolderLock
from common.disk.recording import Recorder
from common.program.logs import HUMAN, LineFormatter
from common.program.malloc import keep_buffers
from common.program.signals import ends_with, how_to_go_on
from fl_server.coordinator.conductor import StartRecord
from fl_server.fleet.kinds import Fleet
from fl_server.reports.runs import read_events
from fl_server.run.find import resume_command
from fl_server.run.metrics.tensorboard import EventFile
from fl_server.run.provenance import Start, note_start, record_machine
from fl_server.run.store import RunStore
from fl_server.run.updates.open_updates import RECENT_BYTES
from fl_server.watch import facts
from fl_server.watch.displays import Lines, Screen, Style, make_display, show_summary
from fl_server.watch.facts.making import stamped
from fl_server.watch.viewers import Viewers, without_failure
from fl_server.web.runs.replayed import Replay
from fl_server.web.site import Site

log = logging.getLogger(__name__)
_DISPLAY = "the display"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Where runs are kept and how they are shown; a sweep shows its runs in its own way."""

    runs: Path
    style: Style = "screen"
    tensorboard: bool = False
    record: Path | None = None
    display: Callable[[str], Screen | Lines] | None = None
    web: Site | None = None
    data: Path | None = None  # the boards' own data, in a lab or a simulation
    fleet: Fleet | None = None  # what the boards are like, in a lab or a simulation
    start: Start | None = None  # how the run is started, to be noted in its folder

    @property
    def start_record(self) -> StartRecord | None:
        """How the events of a run are recorded, if they are."""
        if (path := self.record) is None:
            return None
        return lambda policy, state: Recorder(path, policy, state).write

    @property
    def shards(self) -> Path:
        """Where simulations keep their clients' shards."""
        return self.runs / ".shards"


@dataclass(frozen=True, slots=True)
class Work:
    """Where the facts of a run go."""

    display: Screen | Lines
    viewers: Viewers
    again: str  # the command to go on with

    def observe(self, fact: facts.Fact) -> None:
        """Show a fact."""
        self.viewers.observe(fact)


@contextmanager
def at_work(options: RunOptions, store: RunStore) -> Iterator[Work]:
    """The run's folder locked, its log open, a display on."""
    keep_buffers(2 * RECENT_BYTES)
    again = resume_command(store.folder)
    with (
        FolderLock(store.folder, f"a coordinator of run {store.folder.name!r}"),
        ends_with(again),
    ):
        handler = logging.FileHandler(
            store.folder / "server.log", encoding="utf-8", errors="backslashreplace"
        )
        handler.setFormatter(LineFormatter(HUMAN))
        root = logging.getLogger()
        root.addHandler(handler)
        root.setLevel(min(root.level, logging.INFO))
        try:
            record_machine(store.folder)
            note_start(store.folder, options.start)
            with _viewers(options, store, again) as work:
                yield work
        finally:
            root.removeHandler(handler)
            handler.close()


@contextmanager
def _viewers(options: RunOptions, store: RunStore, again: str) -> Iterator[Work]:
    """A display, and an event file if one is wanted."""
    event_file = EventFile(store.folder, time.time()) if options.tensorboard else None
    make = options.display or (lambda title: make_display(title, options.style))
    display = make(store.folder.name)
    observers: dict[str, facts.Observer] = {_DISPLAY: display.observe}
    with without_failure(_DISPLAY):
        display.recall(_past(store))
    if event_file is not None:
        observers["TensorBoard's event file"] = event_file.observe
    with without_failure(_DISPLAY):
        display.__enter__()
    try:
        yield Work(display, Viewers(observers), again)
    finally:
        with without_failure(_DISPLAY):
            display.__exit__()
        if event_file is not None:
            with without_failure("TensorBoard's event file"):
                event_file.close()


def _past(store: RunStore) -> Iterator[facts.Fact]:
    """What happened before this start of the run."""
    replay = Replay(store.run)
    for fact in read_events(store.folder / "events.jsonl"):
        yield from replay.completed(fact)


@contextmanager
def shown(
    options: RunOptions, address: Address, federation: str, observe: facts.Observer
) -> Iterator[None]:
    """The run on a web page, if one is wanted."""
    if options.web is None:
        yield
        return
    observe(stamped(facts.Web(text=f"the page is at {options.web.url}"), time.time()))
    with options.web.watching(address, federation):
        yield


@contextmanager
def shown_here(options: RunOptions, store: RunStore, work: Work) -> Iterator[None]:
    """A run without a broker on a web page, if one is wanted."""
    if options.web is None:
        yield
        return
    work.observe(stamped(facts.Web(text=f"the page is at {options.web.url}"), time.time()))
    with options.web.showing(store.folder, store.run) as observe:
        work.viewers.add("the web page", observe)
        yield


def conclude(options: RunOptions, work: Work, *, finished: bool) -> bool:
    """Show the results, or how to go on."""
    if not finished:
        log.info("interrupted")
    if options.display is None and work.viewers.has(_DISPLAY):
        with without_failure(_DISPLAY):
            _show_end(options, work, finished=finished)
    return finished


def _show_end(options: RunOptions, work: Work, *, finished: bool) -> None:
    if not finished:
        work.display.write(how_to_go_on(work.again))
    elif options.style in ("screen", "plain"):
        show_summary(work.display.view)
