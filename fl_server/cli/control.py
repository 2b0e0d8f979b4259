"""fl-server pause and stop: asking a run that goes on for something."""

from __future__ import annotations

from pathlib import Path

import click

from fl_server.cli.options import runs_option
from fl_server.run import asking


@click.command()
@click.argument("name", metavar="RUN")
@runs_option
def pause(name: str, runs: Path) -> None:
    """Let a run pause after the open round, until 'fl-server resume' lets it go on.

    \b
    Example: fl-server pause demo-3
    """
    folder = asking.ask(runs, Path(name).name, "pause")
    click.echo(
        f"{folder.name} pauses after this round; go on with: fl-server resume "
        f"{folder.name} --runs {runs}"
    )


@click.command()
@click.argument("name", metavar="RUN")
@runs_option
def stop(name: str, runs: Path) -> None:
    """End the coordinator of a run after the open round; it can be resumed later.

    \b
    Example: fl-server stop demo-3
    """
    folder = asking.ask(runs, Path(name).name, "stop")
    click.echo(
        f"{folder.name} stops after this round; go on later with: fl-server resume "
        f"{folder.name} --runs {runs}"
    )


def let_go_on(runs: Path, name: str) -> bool:
    """Take a wish to pause or stop back; False if no process works on the run."""
    who = asking.let_go_on(runs, Path(name).name)
    if who:
        click.echo(f"{Path(name).name} goes on ({who})")
    return bool(who)
