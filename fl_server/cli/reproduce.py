"""fl-server reproduce: published tables, run again."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import click

from common.access.address import probe
from common.access.credentials import reach
from common.data.datasets import require_dataset
from common.errors import UsageError
from common.program.cli import INTERRUPTED, this_command
from common.program.signals import ends_with, how_to_go_on
from common.texts import escaped
from fl_server import launch
from fl_server.cli.options import (
    PageOptions,
    broker_options,
    overrides_option,
    page_options,
    run_options,
    with_page,
)
from fl_server.reports.figures.plot import check_matplotlib
from fl_server.reports.output.terminal import print_table
from fl_server.studies.catalog import find_study, study_names
from fl_server.studies.costs import Measure
from fl_server.studies.found import find_runs
from fl_server.studies.keep import keep
from fl_server.studies.listing import StudyLine, line_of, listing
from fl_server.studies.pages import write_growing_page
from fl_server.studies.plan import plan_study
from fl_server.studies.runner import grid_of, run_central, run_study
from fl_server.studies.runs import StudyRun
from fl_server.studies.study import Study
from fl_server.studies.table import study_table
from fl_server.sweeps.grid import parse_seeds
from fl_server.sweeps.runner import Runner, in_lab, on_broker, simulated


def _complete_study(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    return [name for name in study_names() if name.startswith(begun)]


@click.command()
@click.argument("name", required=False, metavar="[STUDY]", shell_complete=_complete_study)
@click.option("--list", "listed", is_flag=True,
              help="All studies, how far each is, and how long the rest takes.")  # fmt: skip
@click.option("--show", is_flag=True, help="Only the table of what is there; run nothing.")
@click.option("--rows", metavar="LIST", help="Only these rows, such as fedavg,fedrod.")
@click.option("--settings", metavar="LIST", help="Only these settings of the study.")
@click.option("--seeds", metavar="LIST",
              help="Seeds such as 1 or 1-3.  [default: as many as published]")  # fmt: skip
@overrides_option
@click.option("--lab", type=click.IntRange(1, 500), metavar="BOARDS",
              help="On this machine, with a broker and boards of its own.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True,
              help="Training processes of each board of the lab.")  # fmt: skip
@click.option("--processes", type=click.IntRange(1, 64), default=1, show_default=True,
              help="Clients that a simulation trains side by side.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR",
              help="A page with the table and plots there, anew after every run.")  # fmt: skip
@click.option("--keep", "kept", type=click.Path(path_type=Path), metavar="DIR",
              help="Copy the metrics of finished runs there; run nothing.")  # fmt: skip
@broker_options
@page_options
@run_options
def reproduce(
    name: str | None,
    listed: bool,
    show: bool,
    rows: str | None,
    settings: str | None,
    seeds: str | None,
    overrides: tuple[str, ...],
    lab: int | None,
    workers: int,
    processes: int,
    output: Path | None,
    kept: Path | None,
    broker: str | None,
    credentials: Path | None,
    federation: str | None,
    page: PageOptions,
    options: launch.RunOptions,
) -> None:
    """Run a published table again, and print it beside the published numbers.

    As a simulation in this process, or on boards with --broker or --credentials. Started again
    it skips what is finished and goes on in the middle of what is not.

    \b
    Example: fl-server reproduce --list
    Example: fl-server reproduce mini
    Example: fl-server reproduce table6 --rows fedavg,fedrod,fedreg --seeds 1
    Example: fl-server reproduce table6 --broker 192.168.1.10 --web
    """
    if name is None or listed:
        if name is not None:
            raise UsageError("--list is of all studies; leave the name out, or use --show")
        _list(options.runs)
        return
    if output is not None:
        check_matplotlib()  # at once, not after the first run
    study = find_study(name)
    plan = plan_study(
        study,
        options.runs,
        rows=_words(rows),
        settings=_words(settings),
        seeds=parse_seeds(seeds) if seeds else (),
        overrides=overrides,
    )
    if kept is not None:
        copied = keep(study, plan, options.runs, kept)
        click.echo(f"{len(copied)} of {len(plan)} runs are in {kept / study.name}")
        return
    if show:
        _show(study, plan, options, output)
        return
    with ends_with(this_command()), ExitStack() as stack:
        options = stack.enter_context(with_page(options, page, "runs"))
        wire = broker is not None or credentials is not None
        if wire and lab is not None:
            raise UsageError("--lab and --broker are two places; choose one")
        runner = _runner(
            stack, plan, options, lab=lab, workers=workers, processes=processes,
            reached=(broker, credentials, federation) if wire else None,
        )  # fmt: skip
        run_central(plan, options.runs, click.echo)
        outcome = run_study(
            options,
            plan,
            runner,
            lambda: write_growing_page(output, study, find_runs(plan, options.runs)),
        )
    _show(study, plan, options, output)
    if outcome.interrupted:
        click.echo(how_to_go_on(this_command()))
        sys.exit(INTERRUPTED)
    for run, text in outcome.failed.items():
        click.echo(f"failed: {run}: {escaped(text)}", err=True)
    sys.exit(1 if outcome.failed else 0)


def _runner(
    stack: ExitStack,
    plan: tuple[StudyRun, ...],
    options: launch.RunOptions,
    *,
    lab: int | None,
    workers: int,
    processes: int,
    reached: tuple[str | None, Path | None, str | None] | None,
) -> Runner:
    if reached is not None:
        found = reach(*reached, "coordinator")
        probe(found.address)
        return on_broker(found.address, found.federation)
    for dataset in sorted({run.experiment.data.dataset for run in plan}):
        require_dataset(dataset)
    if lab is not None:
        return stack.enter_context(
            in_lab(options.runs, grid_of(plan), boards=lab, workers=workers)
        )
    return stack.enter_context(simulated(processes))


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",")) if text else ()


def _show(
    study: Study, plan: tuple[StudyRun, ...], options: launch.RunOptions, output: Path | None
) -> None:
    found = find_runs(plan, options.runs)
    if options.style != "json":
        print_table(study_table(study, found))
        click.echo(line_of(study, found, _measure()).text())
    page = write_growing_page(output, study, found)
    if page is not None:
        click.echo(f"wrote {page}")


def _list(runs: Path) -> None:
    click.echo("measuring how fast this machine trains each model ...", err=True)
    measure, lines = _measure(), list[StudyLine]()
    for name in study_names():
        study = find_study(name)
        found = find_runs(plan_study(study, runs), runs)
        lines.append(line_of(study, found, measure))
    print_table(listing(lines))


def _measure() -> Measure:
    from fl_server.studies.steps import measure  # imports torch

    return measure
