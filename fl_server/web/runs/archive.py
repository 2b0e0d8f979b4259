"""The runs of a folder as a page shows them, finished or not; nothing in the folder is changed.

A run is followed by its events.jsonl: what was added since the last look is read, no more.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path

import msgspec

from common.disk.lock import holder
from common.errors import FedbedError, StoreError, UsageError
from common.experiment.file import read_experiment
from common.experiment.tasks import task_of
from fl_server.reports.central_run import is_central
from fl_server.reports.listing import Listing, RunLine
from fl_server.reports.runs import read_metrics, read_run
from fl_server.run.run_record import read_record
from fl_server.watch import facts
from fl_server.watch.facts import Fact
from fl_server.watch.facts.lines import MainMetric, fields_of
from fl_server.watch.facts.making import evaluated, parse, round_closed
from fl_server.watch.view import View
from fl_server.web.runs.board_history import BoardHistory
from fl_server.web.runs.replayed import Replay

MOST_RUNS = 2_000  # in the list
MOST_FOLLOWED = 8
MOST_BYTES = 16_000_000  # of the events of a run, from their end
TRAINED = frozenset({"train_loss", "updates", "seconds", "bytes_up", "bytes_down"})


class Followed:
    """One run: its view, brought up to date by what its files have got since."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = threading.Lock()
        self.history = BoardHistory()
        self._offset = 0
        self._stamp: object = None
        self._begin()

    def _begin(self) -> None:
        run = self.folder.name if is_central(self.folder) else read_record(self.folder).id
        self._replay = Replay(run)
        self.view = View()
        self._take(described(self.folder, run))

    def look(self) -> View:
        """The view as of now."""
        if is_central(self.folder):
            self._look_at_central()
        else:
            for fact in self._new_facts():
                for one in self._replay.completed(fact):
                    self._take(one)
        here = bool(holder(self.folder)) or is_central(self.folder)
        if self.view.coordinator is not here:
            self._take(facts.Coordinator(here, self.view.started, self.view.run))
        return self.view

    def _take(self, fact: Fact) -> None:
        self.view = self.view.after(fact)
        self.history.observe(fact, self.view.boards)

    def _new_facts(self) -> list[Fact]:
        path = self.folder / "events.jsonl"
        try:
            with path.open("rb") as file:
                size = file.seek(0, 2)
                if self._offset == 0 and size > MOST_BYTES:
                    file.seek(size - MOST_BYTES)
                    self._offset = file.tell() + len(file.readline())
                    self._take_metrics()
                file.seek(self._offset)
                data = file.read(MOST_BYTES)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}") from error
        whole = data.rfind(b"\n") + 1
        self._offset += whole
        return [fact for line in data[:whole].splitlines() if (fact := _fact(line)) is not None]

    def _take_metrics(self) -> None:
        """The curves, where not all events are read."""
        for line in read_metrics(self.folder / "metrics.jsonl"):
            known = fields_of(line)
            if known.keys() >= TRAINED:
                self._take(round_closed({k: known[k] for k in ("round", *TRAINED)}))
            if line.tests:
                self._take(evaluated(known))

    def _look_at_central(self) -> None:
        path = self.folder / "metrics.jsonl"
        stamp = path.stat().st_mtime_ns if path.exists() else 0
        if stamp == self._stamp:
            return
        self._stamp = stamp
        found = read_run(self.folder)
        for line in found.lines:
            self._take(evaluated(fields_of(line)))
        if found.finished:
            self._take(facts.Finished(reason="the last epoch is over"))


def _fact(line: bytes) -> Fact | None:
    """A fact; one of another version is passed over."""
    try:
        return parse(msgspec.json.decode(line, type=dict))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def described(folder: Path, run: str) -> facts.Described:
    """What is run, by the file in the folder."""
    experiment = read_experiment(folder / "experiment.toml")
    main, central = task_of(experiment).main, is_central(folder)
    rounds = experiment.central.epochs if central else experiment.experiment.rounds
    shown = msgspec.to_builtins(experiment)
    if central:
        shown = {**shown, "algorithm": {"name": "centralized"}}
    return facts.Described(
        run=run,
        rounds=rounds,
        experiment=shown,
        text=f"run {run}: {rounds} {'epochs' if central else 'rounds'}",
        main=MainMetric(main.name, main.lower, main.share),
        time=round((folder / "experiment.toml").stat().st_mtime, 2),
    )


class Archive:
    """The runs of a folder; its methods may be called from any thread."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self._listing = Listing(runs)
        self._lock = threading.Lock()
        self._followed: OrderedDict[str, Followed] = OrderedDict()

    def lines(self) -> tuple[list[RunLine], list[str]]:
        """All runs, each in one line; and what could not be read."""
        with self._lock:
            return self._listing.lines(MOST_RUNS)

    def folder(self, name: str) -> Path:
        """The folder of a run; UsageError if there is none of that name."""
        inside = bool(name) and not set(name) & set("/\\\0") and not name.startswith(".")
        if not inside or not (self.runs / name / "experiment.toml").exists():
            raise UsageError(f"there is no run {name!r}")
        return self.runs / name

    def followed(self, name: str) -> Followed:
        """A run that is looked at; those looked at longest ago are forgotten."""
        folder = self.folder(name)
        with self._lock:
            found = self._followed.pop(name, None)
            if found is None or not _is_same(found):
                found = Followed(folder)
            self._followed[name] = found
            while len(self._followed) > MOST_FOLLOWED:
                self._followed.popitem(last=False)
        return found


def _is_same(followed: Followed) -> bool:
    """Whether the folder still has that run, and was not made anew."""
    try:
        return is_central(followed.folder) or (
            read_record(followed.folder).id == followed.view.run
        )
    except FedbedError:
        return False
