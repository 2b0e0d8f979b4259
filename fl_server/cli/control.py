"""fl-server pause, stop and resume: resume goes on with a run in the way it was started."""

from __future__ import annotations

import inspect
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import click

from common.access.address import probe
from common.access.credentials import reach
from common.errors import UsageError
from common.experiment.file import load_experiment
from common.program.cli import INTERRUPTED
from fl_server import launch
from fl_server.cli.options import (
    PAGE,
    SHOWN,
    PageOptions,
    broker_options,
    page_options,
    run_argument,
    run_options,
    runs_option,
    with_page,
)
from fl_server.cli.train import train_centrally
from fl_server.reports.central_run import is_central
from fl_server.run import asking
from fl_server.run.find import find_folder, find_run, resume_command
from fl_server.run.fleet import NAME as FLEET
from fl_server.run.provenance import Start, read_start
from fl_server.run.run_record import read_record

HERE = ("lab", "simulate")  # commands that need no broker; they go on if started again


@click.command()
@run_argument
@runs_option
def pause(name: str, runs: Path) -> None:
    """Pause a run after the open round; 'fl-server resume' lets it go on.

    \b
    Example: fl-server pause demo-3
    """
    folder = asking.ask(runs, Path(name).name, "pause")
    click.echo(f"{folder.name} pauses after this round; go on with: {resume_command(folder)}")


@click.command()
@run_argument
@runs_option
def stop(name: str, runs: Path) -> None:
    """Stop a run after the open round; it can be resumed later.

    \b
    Example: fl-server stop demo-3
    """
    folder = asking.ask(runs, Path(name).name, "stop")
    click.echo(
        f"{folder.name} stops after this round; go on later with: {resume_command(folder)}"
    )


@click.command()
@run_argument
@click.option("--wait", type=click.FloatRange(0), default=0.0, metavar="SECONDS",
              help="How long to wait for a broker that does not answer.")  # fmt: skip
@click.option("--stay-paused", is_flag=True,
              help="Stay paused if the run was paused (for supervisors).")  # fmt: skip
@broker_options
@page_options
@run_options
def resume(
    name: str,
    wait: float,
    stay_paused: bool,
    broker: str | None,
    credentials: Path | None,
    federation: str | None,
    page: PageOptions,
    options: launch.RunOptions,
) -> None:
    """Go on with a run that was paused, stopped, interrupted, killed or unplugged.

    It goes on as it was started: in a lab, as a simulation, or with the broker and credentials
    of then. With --broker or --credentials it goes on there.

    \b
    Example: fl-server resume demo-3
    Example: fl-server resume demo-3 --credentials server.toml
    """
    name = Path(name).name
    if is_central(options.runs / name):
        experiment = load_experiment(options.runs / name / "experiment.toml")
        train_centrally(experiment, name, options.runs)
        return
    if not stay_paused and let_go_on(options.runs, name):
        return
    folder = find_folder(options.runs, name)
    start = _given(broker, credentials, federation) or read_start(folder) or Start("run")
    options = replace(options, start=None if stay_paused else start)
    if start.command == "run":
        with with_page(options, page) as shown:
            finished = _over_a_broker(shown, start, folder, wait=wait)
        sys.exit(0 if finished else INTERRUPTED)
    if read_record(folder).finished:
        click.echo(f"this run is finished; its results are in {folder}")
    elif start.command in HERE:
        _here(options, start, folder, page)
    else:
        raise UsageError(_as_before(start, folder))


def _given(
    broker: str | None, credentials: Path | None, federation: str | None
) -> Start | None:
    given = {"--broker": broker, "--credentials": credentials, "--federation": federation}
    words = [
        word
        for option, value in given.items()
        if value is not None
        for word in (option, str(value.absolute() if isinstance(value, Path) else value))
    ]
    return Start("run", tuple(words)) if words else None


def _as_before(start: Start, folder: Path) -> str:
    where = f"--runs {shlex.quote(str(folder.parent))}"
    again = (
        f"fl-server submit --again {folder.name} {where}"
        if start.command == "serve"
        else f"fl-server {shlex.join([start.command, *start.arguments])}"
    )
    return (
        f"run {folder.name!r} was started by 'fl-server {start.command}'; go on with: {again} "
        "(or over a broker, with --broker)"
    )


def _again(start: Start, folder: Path) -> click.Context:
    """The command that started a run, as if it were typed again."""
    root = click.get_current_context().find_root()
    assert isinstance(root.command, click.Group)
    command = root.command.get_command(root, start.command)
    assert command is not None, f"no command {start.command}"
    words = [str(folder / "experiment.toml"), *start.arguments]
    if start.command in HERE and (folder / FLEET).exists():
        words += ["--fleet", str(folder / FLEET)]
    words += ["--run", folder.name, "--runs", str(folder.parent)]
    return command.make_context(start.command, words, parent=root)


def _over_a_broker(
    options: launch.RunOptions, start: Start, folder: Path, *, wait: float
) -> bool:
    given = _again(start, folder).params
    reached = reach(given["broker"], given["credentials"], given["federation"], "coordinator")
    store = find_run(folder.parent, folder.name)
    probe(reached.address, patience=wait)
    return launch.run(options, store, reached.address, reached.federation)


def _here(options: launch.RunOptions, start: Start, folder: Path, page: PageOptions) -> None:
    """Call what is behind the command: how the run is shown is known already."""
    with _again(start, folder) as context:
        known = SHOWN | PAGE
        given = {name: context.params[name] for name in context.params if name not in known}
        assert context.command.callback is not None
        inspect.unwrap(context.command.callback)(options=options, page=page, **given)


def let_go_on(runs: Path, name: str) -> bool:
    """Take a request to pause or stop back; False if no process works on the run."""
    who = asking.let_go_on(runs, Path(name).name)
    if who:
        click.echo(f"{Path(name).name} goes on ({who})")
    return bool(who)
