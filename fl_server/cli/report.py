"""fl-server report: runs compared, in the terminal or as files and one page."""

from __future__ import annotations

import math
import time
from pathlib import Path

import click

from common.errors import UsageError
from fl_server.cli.options import runs_option
from fl_server.reports.build import tables_of, write_report
from fl_server.reports.groups import group_runs
from fl_server.reports.output.terminal import print_table
from fl_server.reports.runs import check_comparable, find_folders, read_reference, read_run
from fl_server.run.metrics.tensorboard import EventFile

SHORT = ("results", "differences", "comparison", "rounds-to-global", "costs", "faults")


@click.command()
@click.argument("names", nargs=-1, metavar="[RUN]...")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR",
              help="Write a page, plots and tables there.")  # fmt: skip
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
    """Compare runs: tables here, or with -o a page with plots, and every table as a file.

    Runs that differ only in their seed are taken together. Without RUN, all runs are taken.

    \b
    Example: fl-server report demo-1 demo-2
    Example: fl-server report runs/table6-* --compare paper.toml -o report
    """
    published = read_reference(reference) if reference else None
    folders = find_folders(names, runs)
    found = [read_run(folder, _parse_levels(levels) if levels else None) for folder in folders]
    check_comparable(found)
    groups = group_runs(found)
    if tensorboard:
        for folder in folders:
            EventFile(folder, time.time()).close()
    if output is None:
        for table in tables_of(groups, published):
            if table.key in SHORT:
                print_table(table)
        click.echo("with -o DIR: all tables, plots, and a page with everything")
        return
    page = write_report(output, groups, published, time.strftime("%Y-%m-%d"))
    click.echo(f"wrote {page} and beside it tables (csv, md, tex) and plots (png, svg)")


def _parse_levels(text: str) -> tuple[float, ...]:
    try:
        found = tuple(sorted({float(piece) for piece in text.split(",")}))
    except ValueError as error:
        raise UsageError(f"--levels is {text!r}; expected such as 80,90") from error
    if not all(math.isfinite(value) for value in found):
        raise UsageError(f"--levels is {text!r}; expected finite numbers, such as 80,90")
    return found
