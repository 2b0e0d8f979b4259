"""fl-server report: runs compared, in the terminal or as files and one page."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path

import click

from common.errors import FedbedError, UsageError
from fl_server.cli.options import complete_run, runs_option
from fl_server.reports.build import tables_of, write_report
from fl_server.reports.central_run import is_central
from fl_server.reports.find import find_folders
from fl_server.reports.groups import group_runs
from fl_server.reports.output.terminal import print_table
from fl_server.reports.run_data import RunData
from fl_server.reports.runs import check_comparable, read_reference, read_run
from fl_server.run.metrics.tensorboard import EventFile

SHORT = (
    "results",
    "differences",
    "comparison",
    "rounds-to-global",
    "time-to-global",
    "costs",
    "faults",
)


@click.command()
@click.argument("names", nargs=-1, metavar="[RUN]...", shell_complete=complete_run)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR",
              help="Write a page, figures and tables there.")  # fmt: skip
@click.option("--compare", "reference", type=click.Path(path_type=Path), metavar="FILE",
              help="Set published numbers beside ours (see docs/reporting.md).")  # fmt: skip
@click.option("--levels", metavar="LIST",
              help="Levels of the main metric whose cost is shown (accuracies in percent): "
              "80,90.")  # fmt: skip
@click.option(
    "--tensorboard", is_flag=True, help="Also write event files into the run folders."
)
@runs_option
def report(
    names: tuple[str, ...],
    output: Path | None,
    reference: Path | None,
    levels: str | None,
    tensorboard: bool,
    runs: Path,
) -> None:
    """Compare runs: tables here or, with -o, a page with figures and every table as a file.

    RUN is what `fl-server runs` lists: a name, a folder, or a pattern in quotes; without it,
    all. Runs that differ only in their seed are one row, centralized trainings a dashed line.

    \b
    Example: fl-server report demo-1 demo-central
    Example: fl-server report 'demo-*' -o report
    Example: fl-server report runs/table6-* --compare paper.toml -o report
    """
    published = read_reference(reference) if reference else None
    folders = find_folders(names, runs)
    wanted = _parse_levels(levels) if levels else None
    found = _read_all(folders, wanted) if names else _readable(folders, wanted)
    check_comparable(found)
    groups = group_runs(found)
    if tensorboard:
        for folder in folders:
            if not is_central(folder):
                EventFile(folder, time.time()).close()
    if output is None:
        for table in tables_of(groups, published):
            if table.key in SHORT:
                print_table(table)
        click.echo("with -o DIR: all tables, figures, and a page with everything")
        return
    page = write_report(output, groups, published, time.strftime("%Y-%m-%d"))
    click.echo(f"wrote {page} and beside it tables (csv, md, tex) and figures (pdf, png, svg)")


def _read_all(folders: Sequence[Path], levels: Sequence[float] | None) -> list[RunData]:
    return [read_run(folder, levels) for folder in folders]


def _readable(folders: Sequence[Path], levels: Sequence[float] | None) -> list[RunData]:
    """Those that can be read; one that cannot does not spoil a report of all."""
    found = []
    for folder in folders:
        try:
            found.append(read_run(folder, levels))
        except FedbedError as error:
            click.echo(f"left out, as it cannot be read: {folder.name}: {error}", err=True)
    if not found:
        raise UsageError("no run can be read")
    return found


def _parse_levels(text: str) -> tuple[float, ...]:
    try:
        found = tuple(sorted({float(piece) for piece in text.split(",")}))
    except ValueError as error:
        raise UsageError(f"--levels is {text!r}; expected such as 80,90") from error
    if not all(math.isfinite(value) for value in found):
        raise UsageError(f"--levels is {text!r}; expected finite numbers, such as 80,90")
    return found
