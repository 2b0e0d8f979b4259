"""What the page is told besides its stream: runs, boards, clients, comparisons; as JSON."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from common.errors import UsageError
from fl_server.queue import Queue
from fl_server.run.control import read_request
from fl_server.run.run_record import read_record
from fl_server.watch.view import View
from fl_server.web.audience import Audience
from fl_server.web.runs.archive import Archive, Followed
from fl_server.web.runs.board_history import BoardHistory
from fl_server.web.runs.clients import class_counts, client_curve, last_tests, log_tail
from fl_server.web.runs.compare import curves, tables
from fl_server.web.sections import sections, whole

Query: TypeAlias = Mapping[str, Sequence[str]]
MOST_CLIENTS = 500  # of a board, in its table
LIST_SECONDS = 1.0  # for so long everybody gets the same list


@dataclass(slots=True)
class Shown:
    """What a page shows: whatever is live, and the runs of a folder; what it shows first."""

    audience: Audience
    archive: Archive | None = None
    home: Literal["live", "runs"] = "live"
    may_ask: bool = False
    _listed: tuple[float, bytes] = field(default=(-LIST_SECONDS, b""))

    @property
    def live(self) -> str:
        """The run of our folder that is live here; empty if there is none."""
        view = self.audience.view
        if self.archive is None or not view.run:
            return ""
        folder = self.archive.runs / view.title
        try:
            return view.title if read_record(folder).id == view.run else ""
        except Exception:  # noqa: BLE001 - somebody else's run, with any name
            return ""

    def site(self) -> bytes:
        """What there is to see here."""
        view = self.audience.view
        return _json(
            {
                "home": self.home,
                "runs": self.archive is not None,
                "control": self.may_ask and self.archive is not None,
                "live": self.live,
                "elsewhere": view.title if view.run and not self.live else "",
            }
        )

    def runs(self) -> bytes:
        """The list of runs, and the queue."""
        archive, now = self._archive(), time.monotonic()
        made, found = self._listed
        if now - made > LIST_SECONDS:
            lines, problems = archive.lines()
            queue = Queue(archive.runs)
            found = _json(
                {
                    "now": time.time(),
                    "folder": str(archive.runs.absolute()),
                    "lines": lines[::-1],
                    "problems": problems,
                    "queue": queue.entries(),
                    "coordinator": queue.coordinator,
                    "live": self.live,
                    "requests": {
                        line.name: read_request(archive.runs / line.name)
                        for line in lines
                        if line.state == "running"
                    },
                }
            )
            self._listed = (now, found)
        return found

    def snapshot(self, query: Query) -> bytes:
        """Everything about a run, once."""
        if not _one(query, "run"):
            return self.audience.snapshot(time.time())
        followed = self._archive().followed(_one(query, "run"))
        with followed.lock:
            return whole(sections(followed.look()), time.time())

    def board(self, query: Query) -> bytes:
        """One board: what it measured, its rounds, its clients, its news."""
        name, run = _one(query, "board"), _one(query, "run")
        history, view = self._seen(run)
        shown = view.boards.get(name)
        if shown is None:
            raise UsageError(f"there is no board {name!r}")
        known = history.boards.get(name)
        folder = self._folder(run)
        tests = {} if folder is None else last_tests(folder)
        sizes = {} if known is None else known.sizes
        return _json(
            {
                "board": name,
                "more_clients": max(0, len(shown.clients) + shown.more_clients - MOST_CLIENTS),
                "clients": [
                    {"client": client, "samples": sizes.get(client), **tests.get(client, {})}
                    for client in shown.clients[:MOST_CLIENTS]
                ],
                "samples": [] if known is None else known.samples,
                "rounds": [] if known is None else known.rounds,
                "notes": [] if known is None else known.notes,
                "log": [] if folder is None else log_tail(folder, name, view.boards),
            }
        )

    def client(self, query: Query) -> bytes:
        """One client: its main metric over rounds, its classes."""
        folder, text = self._folder(_one(query, "run")), _one(query, "client")
        if not text.isdecimal() or len(text) > 9:
            raise UsageError(f"there is no client {text!r}")
        if folder is None:
            return _json({"client": int(text), "lines": [], "classes": []})
        found = {"lines": client_curve(folder, int(text))[-2000:]}
        return _json({"client": int(text), **found, "classes": class_counts(folder, int(text))})

    def curves(self, query: Query) -> bytes:
        """The curves of several runs."""
        return _json(curves(self._archive(), query.get("run", ())))

    def tables(self, query: Query) -> bytes:
        """The tables of several runs."""
        return _json(tables(self._archive(), query.get("run", ())))

    def _archive(self) -> Archive:
        if self.archive is None:
            raise UsageError("this page shows what is live, and no folder of runs")
        return self.archive

    def _seen(self, run: str) -> tuple[BoardHistory, View]:
        """What is known of the boards of a run: more, if it is live here."""
        if not run or run == self.live:
            return self.audience.history, self.audience.view
        followed: Followed = self._archive().followed(run)
        with followed.lock:
            return followed.history, followed.look()

    def _folder(self, run: str) -> Path | None:
        name = run or self.live
        return self.archive.folder(name) if self.archive is not None and name else None


def _one(query: Query, name: str) -> str:
    return next(iter(query.get(name, ())), "")


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)


ANSWERS: Mapping[str, Callable[[Shown, Query], bytes]] = {
    "/site": lambda shown, _: shown.site(),
    "/runs": lambda shown, _: shown.runs(),
    "/snapshot": Shown.snapshot,
    "/board": Shown.board,
    "/client": Shown.client,
    "/curves": Shown.curves,
    "/tables": Shown.tables,
}
