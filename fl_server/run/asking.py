"""Asking a run that goes on, in whichever process, to pause, to go on or to stop."""

from __future__ import annotations

from pathlib import Path

from common.disk.lock import holder
from common.errors import UsageError
from fl_server.run.control import Request, write_request
from fl_server.run.find import find_folder, resume_command
from fl_server.run.run_record import read_record


def ask(runs: Path, name: str, request: Request) -> Path:
    """Ask for a pause or a stop after the open round; the folder of the run."""
    folder = find_folder(runs, name)
    if read_record(folder).finished:
        raise UsageError(f"run {folder.name!r} is finished; there is nothing to {request}")
    if not holder(folder):
        raise UsageError(
            f"run {folder.name!r} is not going on; there is nothing to {request}. Go on with: "
            f"{resume_command(folder)}"
        )
    write_request(folder, request)
    return folder


def let_go_on(runs: Path, name: str) -> str:
    """Take a request to pause or stop back; who works on the run, empty if nobody does."""
    folder = find_folder(runs, name)
    write_request(folder, "run")
    return holder(folder)
