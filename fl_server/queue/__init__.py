"""Experiments that wait until a coordinator that stays (`fl-server serve`) runs them.

One small file per experiment in `runs/.queue/`, whole or absent; their numbers are the order.
Whoever changes one holds the folder, so a page, a command line and the coordinator can.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from common.config import Experiment
from common.disk.atomic import disk_errors, sync_folder, write_atomic
from common.disk.lock import FolderLock, holder
from common.errors import ConfigError, UsageError
from common.experiment.file import parse_text, write_text
from common.ids import check_name
from fl_server.run.find import check_free
from fl_server.run.model.first import check_start

FOLDER = ".queue"
COORDINATOR = "coordinator"
MOST_WAITING = 10_000
LONGEST_TEXT = 1_000_000

log = logging.getLogger(__name__)

EntryState: TypeAlias = Literal["waiting", "running", "done", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class Entry:
    """An experiment of the queue; `run` is the name of its run, once it has one."""

    id: str
    name: str
    state: EntryState
    run: str | None
    problem: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """An experiment to be queued: its run's name, if that matters, and where its code is."""

    experiment: Experiment
    run: str | None = None
    code: Path | None = None


class _Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    text: str
    state: EntryState = "waiting"
    run: str | None = None
    code: str = ""
    problem: str = ""


class Queue:
    """The queue of a folder of runs."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._folder = runs / FOLDER

    def submit(self, text: str, name: str | None = None) -> Entry:
        """Add an experiment that came as text, checked; `name` is that of its run."""
        if len(text) > LONGEST_TEXT:
            raise ConfigError(f"the experiment has more than {LONGEST_TEXT:,} letters")
        return self.add([Wanted(parse_text(text), name)])[0]

    def add(self, wanted: Sequence[Wanted]) -> tuple[Entry, ...]:
        """Add experiments: all of them, or none if one cannot be run."""
        with self._held():
            records = self._records()
            waiting = [r for r in records.values() if r.state in ("waiting", "running")]
            if len(waiting) + len(wanted) > MOST_WAITING:
                raise UsageError(f"more than {MOST_WAITING:,} experiments would wait")
            taken = {record.run for record in waiting}
            new: list[_Record] = []
            for one in wanted:
                if one.run is not None:
                    self._check_run(one.run, one.experiment, taken)
                    taken.add(one.run)
                check_start(one.experiment)
                new.append(_record_of(one))
            first = max(self._numbers(), default=0) + 1
            for number, record in enumerate(new, first):
                self._write(number, record)
            return tuple(_entry(number, record) for number, record in enumerate(new, first))

    def _check_run(self, run: str, experiment: Experiment, taken: set[str | None]) -> None:
        check_name(run, "--run")
        if run in taken:
            raise UsageError(f"run {run!r} is in the queue already; choose another --run")
        check_free(self._runs, run, experiment)

    def entries(self) -> tuple[Entry, ...]:
        """All experiments in their order, also those that have ended."""
        return tuple(_entry(number, record) for number, record in self._records().items())

    def remove(self, entry_id: str) -> None:
        """Take an experiment out of the queue, or out of the list of those that have ended."""
        with self._held():
            number, record = self._find(entry_id)
            if record.state == "running":
                raise UsageError(
                    f"{entry_id} runs now; end it after its round with: fl-server stop "
                    f"{record.run}"
                )
            with disk_errors(self._folder):
                self._path(number).unlink(missing_ok=True)
                sync_folder(self._folder)

    # for the coordinator that stays

    def coordinated(self) -> FolderLock:
        """Held by the one coordinator that works on this queue."""
        return FolderLock(self._folder / COORDINATOR, "a coordinator of this queue")

    @property
    def coordinator(self) -> str:
        """Who works on this queue now; empty if nobody does."""
        return holder(self._folder / COORDINATOR)

    def next(self) -> Entry | None:
        """What to run now: what was interrupted, or what waits longest."""
        entries = self.entries()
        return next(
            (e for state in ("running", "waiting") for e in entries if e.state == state), None
        )

    def wanted(self, entry_id: str) -> Wanted:
        """The experiment of an entry, checked again: its code may have changed."""
        _, record = self._find(entry_id)
        code = Path(record.code) if record.code else None
        return Wanted(parse_text(record.text, code=code), record.run, code)

    def mark(
        self, entry_id: str, state: EntryState, run: str | None, problem: str = ""
    ) -> None:
        """Note what became of an experiment."""
        with self._held():
            number, record = self._find(entry_id)
            changed = msgspec.structs.replace(record, state=state, run=run, problem=problem)
            self._write(number, changed)

    # files

    def _held(self) -> FolderLock:
        return FolderLock(self._folder, "a change of the queue", wait=True)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:06d}.json"

    def _write(self, number: int, record: _Record) -> None:
        write_atomic(self._path(number), msgspec.json.encode(record))

    def _find(self, entry_id: str) -> tuple[int, _Record]:
        records = self._records()
        if not entry_id.isdecimal() or int(entry_id) not in records:
            known = ", ".join(map(str, records)) or "none"
            raise UsageError(
                f"{entry_id!r} is not in the queue of {self._runs}; there is {known}"
            )
        return int(entry_id), records[int(entry_id)]

    def _numbers(self) -> dict[int, Path]:
        found = (p for p in self._folder.glob("[0-9]*.json") if p.stem.isdecimal())
        return {int(path.stem): path for path in sorted(found)}

    def _records(self) -> dict[int, _Record]:
        found = {}
        for number, path in self._numbers().items():
            try:
                found[number] = msgspec.json.decode(path.read_bytes(), type=_Record)
            except FileNotFoundError:  # removed meanwhile
                continue
            except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
                log.warning("passed over %s: %s", path, error)
        return found


def _record_of(wanted: Wanted) -> _Record:
    return _Record(
        name=wanted.run or wanted.experiment.experiment.name,
        text=write_text(wanted.experiment),
        run=wanted.run,
        code=str(wanted.code or ""),
    )


def _entry(number: int, record: _Record) -> Entry:
    return Entry(str(number), record.name, record.state, record.run, record.problem)
