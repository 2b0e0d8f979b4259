"""What somebody wants a run to do: one small file in its folder, which whoever works on the run
looks at. It stays when a coordinator is killed: a paused run comes back paused."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from common.disk.atomic import write_atomic
from fl_server.rounds.control import has_stopped
from fl_server.rounds.requests import Request as Request
from fl_server.rounds.state import State

FILE = "request"
LONGEST = 16


def read_request(run_folder: Path) -> Request:
    """What was last asked for; "run" if nobody ever asked, or the file cannot be read."""
    try:
        with (run_folder / FILE).open("rb") as file:
            text = file.read(LONGEST).decode(errors="replace").strip()
    except OSError:
        return "run"
    return next((request for request in get_args(Request) if request == text), "run")


def write_request(run_folder: Path, request: Request) -> None:
    """Ask for it; whoever works on the run, now or later, does it at the next opportunity."""
    write_atomic(run_folder / FILE, f"{request}\n".encode())


class RequestReader:
    """Reports a request once, when it differs from the last one."""

    def __init__(self, run_folder: Path) -> None:
        self._folder = run_folder
        self._last: Request = "run"

    def changed(self) -> Request | None:
        """The new request, if there is one."""
        request = read_request(self._folder)
        if request == self._last:
            return None
        self._last = request
        return request

    def is_fulfilled(self, state: State) -> bool:
        """Whether the run has stopped as was asked for; who starts it again wants it to run."""
        if not has_stopped(state):
            return False
        if read_request(self._folder) == "stop":
            write_request(self._folder, "run")
        return True
