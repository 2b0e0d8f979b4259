"""fl-server sweep: many runs one after another."""

from __future__ import annotations

import shlex
import sys
from contextlib import ExitStack
from pathlib import Path

import click

from common.access.address import probe
from common.access.credentials import reach
from common.data.dataset import find_data
from common.errors import UsageError
from common.program.cli import INTERRUPTED, this_command
from common.program.signals import ends_with, how_to_go_on
from common.texts import escaped
from fl_server import launch
from fl_server.cli.options import (
    PageOptions,
    broker_options,
    dask_option,
    fleet_option,
    overrides_option,
    page_options,
    run_options,
    with_fleet,
    with_page,
)
from fl_server.coordinator.dask_cluster import cluster_at
from fl_server.reports.output.terminal import print_results
from fl_server.reports.runs import read_run
from fl_server.run.fleet import check_fleet
from fl_server.sweeps.grid import Planned, parse_seeds, plan
from fl_server.sweeps.on_cluster import run_on_cluster
from fl_server.sweeps.runner import Outcome, in_lab, on_broker, run_all, simulated


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="EXPERIMENT.toml...",
                type=click.Path(path_type=Path))  # fmt: skip
@click.option("--seeds", metavar="LIST", help="Seeds such as 1,2,3 or 1-5, for every file.")
@overrides_option
@click.option("--lab", type=click.IntRange(1, 500), metavar="BOARDS",
              help="On this machine, with a broker and boards of its own.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True,
              help="Training processes of each board of the lab.")  # fmt: skip
@click.option("--simulate", "simulation", is_flag=True,
              help="In this process, without a broker and boards.")  # fmt: skip
@click.option("--processes", type=click.IntRange(1, 64), default=1, show_default=True,
              help="Clients that the simulation trains side by side.")  # fmt: skip
@fleet_option
@dask_option
@broker_options
@page_options
@run_options
def sweep(
    files: tuple[Path, ...],
    seeds: str | None,
    overrides: tuple[str, ...],
    lab: int | None,
    workers: int,
    simulation: bool,
    processes: int,
    fleet: Path | None,
    dask: str | None,
    broker: str | None,
    credentials: Path | None,
    federation: str | None,
    page: PageOptions,
    options: launch.RunOptions,
) -> None:
    """Run many experiments: one after another on the same boards, or side by side on a cluster.

    All combinations of the files, of the lists in their [sweep] sections, and of the seeds.
    Started again it skips what is finished and goes on in the middle of what is not.

    With --fleet (and --simulate) it also shows which reaches an accuracy first on those boards.

    \b
    Example: fl-server sweep fedavg.toml fedprox.toml --seeds 1,2,3 --broker 192.168.1.10
    Example: fl-server sweep examples/sweep.toml --seeds 1,2 --simulate --processes 2
    Example: fl-server sweep mine/*.toml --simulate --fleet fleet.toml
    Example: fl-server sweep examples/sweep.toml --seeds 1-5 --dask tcp://scheduler:8786
    """
    if (lab is not None) + simulation + (dask is not None) > 1:
        raise UsageError("--lab, --simulate and --dask are different places; choose one")
    if fleet is not None and not simulation:
        raise UsageError("--fleet is for virtual time; add --simulate")
    grid = plan(files, parse_seeds(seeds) if seeds else (), overrides)
    with ends_with(this_command()), ExitStack() as stack:
        options = stack.enter_context(with_page(options, page, "runs"))
        if options.web is not None:
            click.echo(f"the page is at {options.web.url}")
        if dask is not None:
            cluster = stack.enter_context(cluster_at(dask))
            _show(options, grid, run_on_cluster(cluster, options, grid))
            return
        if simulation:
            for planned in grid:
                options = with_fleet(options, planned.experiment, fleet)
                launch.require_data(options, planned.experiment)
                if fleet is not None:
                    check_fleet(fleet, options.runs / planned.name)
            runner = stack.enter_context(simulated(processes, fleet))
        elif lab is not None:
            for planned in grid:
                find_data(planned.experiment.data)
            runner = stack.enter_context(
                in_lab(options.runs, grid, boards=lab, workers=workers)
            )
        else:
            reached = reach(broker, credentials, federation, "coordinator")
            probe(reached.address)
            runner = on_broker(reached.address, reached.federation)
        outcome = run_all(options, grid, runner)
    _show(options, grid, outcome)


def _show(options: launch.RunOptions, grid: tuple[Planned, ...], outcome: Outcome) -> None:
    if outcome.interrupted:
        click.echo(how_to_go_on(this_command()))
        sys.exit(INTERRUPTED)
    if outcome.finished and options.style != "json":
        runs = [read_run(folder) for folder in outcome.finished]
        print_results(runs, costs=options.fleet is not None)
        names = " ".join(shlex.quote(str(folder)) for folder in outcome.finished)
        click.echo(f"full report: fl-server report {names} -o report")
    for name, text in outcome.failed.items():
        click.echo(f"failed: {name}: {escaped(text)}", err=True)
    if outcome.failed:
        click.echo(f"{len(outcome.failed)} of {len(grid)} runs failed; the same command tries "
                   "them again", err=True)  # fmt: skip
        sys.exit(1)
