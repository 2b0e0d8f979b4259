"""fl-server serve, submit and queue: experiments that wait for a coordinator that stays."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import click
import msgspec

from common.access.address import probe
from common.access.credentials import reach
from common.errors import UsageError
from common.experiment.file import code_folder_of, load_experiment, read_experiment
from common.program.cli import INTERRUPTED, this_command
from common.program.signals import how_to_go_on
from fl_server import launch
from fl_server.cli.options import (
    PageOptions,
    broker_options,
    overrides_option,
    page_options,
    run_options,
    runs_option,
    with_page,
)
from fl_server.queue import Entry, Queue, Wanted
from fl_server.reports.output.terminal import print_table
from fl_server.reports.tables import Column, Table
from fl_server.run.find import find_folder
from fl_server.sweeps.grid import parse_seeds, plan, read_lists
from fl_server.sweeps.serve import in_labs, on_broker
from fl_server.sweeps.serve import serve as serve_queue

COLUMNS = (Column("number"), Column("state"), Column("experiment"), Column("run"), Column(""))


@click.command()
@click.option("--lab", type=click.IntRange(1, 500), metavar="BOARDS",
              help="Here, with a broker and boards for each experiment.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True,
              help="Training processes of each board of the lab.")  # fmt: skip
@broker_options
@page_options
@run_options
def serve(
    lab: int | None,
    workers: int,
    broker: str | None,
    credentials: Path | None,
    federation: str | None,
    page: PageOptions,
    options: launch.RunOptions,
) -> None:
    """Run the experiments of the queue one after another, and wait for more.

    Started again after a crash, it goes on where it was.

    \b
    Example: fl-server serve --credentials server.toml
    Example: fl-server serve --lab 4
    """
    if lab is not None and (broker or credentials):
        raise UsageError("--lab has a broker of its own; without it, name one by --broker")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    reached = None if lab is not None else reach(broker, credentials, federation, "coordinator")
    if reached is not None:
        probe(reached.address)
    write = _silent if options.style == "json" else click.echo
    try:
        with with_page(options, page, "runs") as shown:
            if shown.web is not None:
                write(f"the page is at {shown.web.url}")
            if reached is None:
                place = in_labs(shown, boards=lab or 1, workers=workers)
            else:
                place = on_broker(shown, reached.address, reached.federation)
            serve_queue(options.runs, place, write)
    except KeyboardInterrupt:
        click.echo(how_to_go_on(this_command()), err=True)
        sys.exit(INTERRUPTED)


def _silent(_text: str) -> None:
    """Standard output has JSON lines only."""


@click.command()
@click.argument("files", nargs=-1, metavar="EXPERIMENT.toml...",
                type=click.Path(path_type=Path))  # fmt: skip
@overrides_option
@click.option("--seeds", metavar="LIST", help="Seeds such as 1,2,3 or 1-5, for every file.")
@click.option("--run", "name", metavar="NAME", help="Name of the run, for one experiment.")
@click.option("--again", metavar="RUN", help="Go on with a run that was stopped.")
@runs_option
def submit(
    files: tuple[Path, ...],
    overrides: tuple[str, ...],
    seeds: str | None,
    name: str | None,
    again: str | None,
    runs: Path,
) -> None:
    """Put experiments, or a sweep, into the queue of 'fl-server serve'.

    \b
    Example: fl-server submit examples/demo.toml --run demo-now
    Example: fl-server submit examples/sweep.toml --seeds 1-3
    """
    if bool(files) == bool(again):
        raise UsageError("expected experiment files, or --again RUN")
    queue = Queue(runs)
    if again:
        added = queue.add([_unfinished(runs, again)])
    else:
        added = queue.add(_wanted(files, overrides, seeds, name))
    for entry in added:
        click.echo(f"{entry.id}: {entry.name}")
    if not queue.coordinator:
        click.echo(f"nobody works on this queue yet; start: fl-server serve --runs {runs}")


def _unfinished(runs: Path, name: str) -> Wanted:
    path = find_folder(runs, name) / "experiment.toml"
    return Wanted(read_experiment(path), name, code_folder_of(path))


def _wanted(
    files: tuple[Path, ...], overrides: tuple[str, ...], seeds: str | None, name: str | None
) -> list[Wanted]:
    many = len(files) > 1 or bool(seeds) or bool(read_lists(files[0]))
    if not many:
        code = code_folder_of(files[0])
        return [Wanted(load_experiment(files[0], overrides), name, code)]
    if name:
        raise UsageError("--run names one run, and these are several")
    grid = plan(files, parse_seeds(seeds) if seeds else (), overrides)
    return [Wanted(planned.experiment, planned.name, planned.code) for planned in grid]


@click.command("queue")
@click.option("--remove", "number", metavar="NUMBER", help="Take an experiment out.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@runs_option
def show_queue(number: str | None, as_json: bool, runs: Path) -> None:
    """List the experiments of the queue, or take one out.

    \b
    Example: fl-server queue
    Example: fl-server queue --remove 3
    """
    queue = Queue(runs)
    if number is not None:
        queue.remove(number)
        return
    entries = queue.entries()
    if as_json:
        for entry in entries:
            click.echo(msgspec.json.encode(entry))
    elif entries:
        print_table(Table("queue", f"Queue of {runs}", COLUMNS, tuple(map(_row, entries))))
    else:
        click.echo(f"the queue of {runs} is empty; add to it: fl-server submit FILE.toml")


def _row(entry: Entry) -> tuple[str, ...]:
    return entry.id, entry.state, entry.name, entry.run or "-", entry.problem
