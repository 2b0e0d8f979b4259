"""What somebody wants a run to do: one small file in its folder, which whoever works on the run
looks at. It stays when a coordinator is killed: a paused run comes back paused."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from common.disk.atomic import write_atomic
from fl_server.rounds.standing import has_stopped
from fl_server.rounds.state import State
from fl_server.rounds.wishes import Wish as Wish

FILE = "wish"
LONGEST = 16


def read_wish(run_folder: Path) -> Wish:
    """What was last asked for; "run" if nobody ever asked, or the file cannot be read."""
    try:
        with (run_folder / FILE).open("rb") as file:
            text = file.read(LONGEST).decode(errors="replace").strip()
    except OSError:
        return "run"
    return next((wish for wish in get_args(Wish) if wish == text), "run")


def write_wish(run_folder: Path, wish: Wish) -> None:
    """Ask for it; whoever works on the run, now or later, does it at the next opportunity."""
    write_atomic(run_folder / FILE, f"{wish}\n".encode())


class WishReader:
    """Reports a wish once, when it differs from the last one."""

    def __init__(self, run_folder: Path) -> None:
        self._folder = run_folder
        self._last: Wish = "run"

    def changed(self) -> Wish | None:
        """The new wish, if there is one."""
        wish = read_wish(self._folder)
        if wish == self._last:
            return None
        self._last = wish
        return wish

    def is_fulfilled(self, state: State) -> bool:
        """Whether the run has stopped as was asked for; who starts it again wants it to run."""
        if not has_stopped(state):
            return False
        if read_wish(self._folder) == "stop":
            write_wish(self._folder, "run")
        return True
