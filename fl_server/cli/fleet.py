"""fl-server fleet: fleet files."""

from __future__ import annotations

from pathlib import Path

import click

from common.errors import UsageError
from common.program.cli import Commands
from fl_server.cli.options import runs_option
from fl_server.reports.measured import fleet_text, measured_boards
from fl_server.reports.runs import read_run
from fl_server.run.find import find_folder


@click.group(cls=Commands)
def fleet() -> None:
    """Boards and networks as they are (see docs/fleets.md).

    \b
    Example: fl-server fleet measure demo-3 -o fleet.toml
    """


@fleet.command()
@click.argument("name", metavar="RUN")
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, metavar="FILE",
              help="Where the fleet file goes; what is there is not overwritten.")  # fmt: skip
@runs_option
def measure(name: str, out: Path, runs: Path) -> None:
    """Make a fleet file from the times of a real run: speeds, rates, absences, watts.

    What a run cannot show is in the file as an assumption.

    \b
    Example: fl-server fleet measure demo-3 -o fleet.toml
    """
    if out.exists():
        raise UsageError(f"{out} is already there; it is not overwritten")
    run = read_run(find_folder(runs, Path(name).name))
    boards = measured_boards(run)
    if not boards:
        raise UsageError(f"run {name!r} shows no training yet; measure a run that has some")
    text = fleet_text(run, boards)
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror}") from error
    for board in boards:
        rates = [f"{rate:.1f}" if rate else "?" for rate in (board.up, board.down)]
        click.echo(
            f"{board.name}: {board.speed:.0f} samples/s, {rates[0]} Mbit/s up, "
            f"{rates[1]} Mbit/s down"
        )
    click.echo(f"wrote {out}; try it with: fl-server simulate EXPERIMENT.toml --fleet {out}")
