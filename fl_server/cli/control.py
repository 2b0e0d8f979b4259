"""fl-server pause and stop: asking a run that goes on for something."""

from __future__ import annotations

from pathlib import Path

import click

from common.disk.lock import holder
from common.errors import UsageError
from fl_server.cli.options import runs_option
from fl_server.run.control import Wish, write_wish
from fl_server.run.find import find_folder, resume_command
from fl_server.run.run_record import read_record


@click.command()
@click.argument("name", metavar="RUN")
@runs_option
def pause(name: str, runs: Path) -> None:
    """Let a run pause after the open round, until 'fl-server resume' lets it go on.

    \b
    Example: fl-server pause demo-3
    """
    folder = _ask(runs, name, "pause")
    click.echo(f"{folder.name} pauses after this round; go on with: {resume_command(folder)}")


@click.command()
@click.argument("name", metavar="RUN")
@runs_option
def stop(name: str, runs: Path) -> None:
    """End the coordinator of a run after the open round; it can be resumed later.

    \b
    Example: fl-server stop demo-3
    """
    folder = _ask(runs, name, "stop")
    click.echo(
        f"{folder.name} stops after this round; go on later with: {resume_command(folder)}"
    )


def _ask(runs: Path, name: str, wish: Wish) -> Path:
    folder = find_folder(runs, Path(name).name)
    if read_record(folder).finished:
        raise UsageError(f"run {folder.name!r} is finished; there is nothing to {wish}")
    if not holder(folder):
        raise UsageError(
            f"run {folder.name!r} is not going on; there is nothing to {wish}. Go on with: "
            f"{resume_command(folder)}"
        )
    write_wish(folder, wish)
    return folder


def let_go_on(runs: Path, name: str) -> bool:
    """Take a wish to pause or stop back; False if no process works on the run."""
    folder = find_folder(runs, Path(name).name)
    write_wish(folder, "run")
    if not (who := holder(folder)):
        return False
    click.echo(f"{folder.name} goes on ({who})")
    return True
