"""fl-server: experiments, from one machine or for a whole fleet."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import click

from common.access.address import probe
from common.access.credentials import reach
from common.data.dataset import find_data
from common.errors import UsageError
from common.experiment.file import load_experiment
from common.experiment.resolve import participants_of
from common.program.cli import INTERRUPTED, Commands, version_option
from fl_server import launch
from fl_server.cli.control import pause, resume, stop
from fl_server.cli.data import data
from fl_server.cli.experiment import check, init
from fl_server.cli.fleet import fleet as fleet_files
from fl_server.cli.options import (
    PageOptions,
    broker_options,
    dask_option,
    data_option,
    experiment_file,
    fleet_option,
    overrides_option,
    page_options,
    run_option,
    run_options,
    with_fleet,
    with_page,
)
from fl_server.cli.queue import serve, show_queue, submit
from fl_server.cli.relay import relay
from fl_server.cli.replay import replay_run
from fl_server.cli.report import report
from fl_server.cli.reproduce import reproduce
from fl_server.cli.runs import diff, list_runs, recompute_run
from fl_server.cli.sweep import sweep
from fl_server.cli.train import algorithms, central
from fl_server.cli.watch import status, watch
from fl_server.cli.web import web as web_page
from fl_server.coordinator.dask_clients import clients_for
from fl_server.lab.faulty_lab import read_script
from fl_server.lab.lab import share_out
from fl_server.run.find import find_or_create
from fl_server.run.fleet import keep_fleet
from fl_server.site.adding import check_sites


@click.group(
    cls=Commands,
    commands=[
        *(init, check, data, central, algorithms, report, list_runs, diff, recompute_run),
        *(sweep, reproduce, watch, status, replay_run, pause, stop, resume),
        *(web_page, serve, submit, show_queue, fleet_files, relay),
    ],
)
@version_option()
def main() -> None:
    """The coordinator side of fedbed: runs federated-learning experiments.

    \b
    Example: fl-server lab examples/demo.toml --boards 4
    """


@main.command()
@experiment_file
@overrides_option
@broker_options
@run_option
@page_options
@run_options
def run(
    file: Path,
    overrides: tuple[str, ...],
    broker: str | None,
    credentials: Path | None,
    federation: str | None,
    name: str | None,
    page: PageOptions,
    options: launch.RunOptions,
) -> None:
    """Run an experiment on the boards that are connected to a broker.

    \b
    Example: fl-server run examples/demo.toml --credentials server.toml
    Example: fl-server run examples/demo.toml --set experiment.rounds=50
    """
    experiment = load_experiment(file, overrides)
    reached = reach(broker, credentials, federation, "coordinator")
    probe(reached.address)  # before a run folder is made
    with with_page(options, page) as shown:
        store = find_or_create(options.runs, experiment, name)
        finished = launch.run(shown, store, reached.address, reached.federation)
    _exit(finished=finished)


@main.command()
@experiment_file
@overrides_option
@click.option("--boards", type=click.IntRange(1, 500),
              help="Board daemons; the clients are shared out among them.  [default: 4]",
              )  # fmt: skip
@click.option("--workers", type=click.IntRange(1, 64),
              help="Training processes of each board.  [default: 1]")  # fmt: skip
@click.option("--sites", type=click.IntRange(1, 50),
              help="Sites with a broker and a relay each, among which boards are shared out."
              )  # fmt: skip
@data_option
@fleet_option
@click.option("--faults", type=click.Path(path_type=Path), metavar="FILE",
              help="Inject the faults in this script (see docs/faults.md).")  # fmt: skip
@run_option
@page_options
@run_options
def lab(
    file: Path,
    overrides: tuple[str, ...],
    boards: int | None,
    workers: int | None,
    sites: int | None,
    data: Path | None,
    fleet: Path | None,
    faults: Path | None,
    name: str | None,
    page: PageOptions,
    options: launch.RunOptions,
) -> None:
    """Run an experiment on this machine, with a private broker and boards as processes.

    With --fleet, boards are as slow, and their links as bad, as that file says.

    \b
    Example: fl-server lab examples/demo.toml --boards 4
    Example: fl-server lab examples/demo.toml --fleet examples/fleets/village.toml
    Example: fl-server lab examples/demo.toml --faults examples/faults/rough-day.toml
    Example: fl-server lab examples/demo.toml --sites 2 --set aggregation.arithmetic=exact
    """
    experiment = load_experiment(file, overrides)
    options = dataclasses.replace(options, data=data)
    launch.require_local(options, experiment)
    find_data(experiment.data)
    if fleet is not None and (boards or workers or faults):
        raise UsageError("--fleet says what the lab is like: no --boards, --workers, --faults")
    if sites is not None:
        if fleet is not None or faults is not None:
            raise UsageError("--sites is for equal boards without faults: no --fleet, --faults")
        check_sites(experiment)
    there = share_out(participants_of(experiment), boards or 4, workers or 1)
    script = read_script(faults, tuple(there)) if faults else None
    options = with_fleet(options, experiment, fleet)
    with with_page(options, page) as shown:
        store = find_or_create(options.runs, experiment, name)
        if script is not None:
            finished = launch.faulty_lab(shown, store, script, there)
        elif fleet is not None and shown.fleet is not None:
            keep_fleet(fleet, store.folder)
            finished = launch.fleet_lab(shown, store, shown.fleet)
        else:
            finished = launch.lab(shown, store, there, sites=sites or 0)
    _exit(finished=finished)


@main.command()
@experiment_file
@overrides_option
@click.option("--processes", type=click.IntRange(1, 64), default=1, show_default=True,
              help="Train clients side by side; the results are the same.")  # fmt: skip
@data_option
@fleet_option
@dask_option
@run_option
@page_options
@run_options
def simulate(
    file: Path,
    overrides: tuple[str, ...],
    processes: int,
    data: Path | None,
    fleet: Path | None,
    dask: str | None,
    name: str | None,
    page: PageOptions,
    options: launch.RunOptions,
) -> None:
    """Run an experiment without a broker, to the same bits as over the wire.

    With --fleet in virtual time: seconds, bytes and joules are those of that fleet.

    \b
    Example: fl-server simulate examples/demo.toml --fleet examples/fleets/village.toml
    Example: fl-server simulate examples/demo.toml --processes 2
    Example: fl-server simulate examples/demo.toml --dask tcp://scheduler:8786
    """
    experiment = load_experiment(file, overrides)
    options = dataclasses.replace(options, data=data)
    if dask is not None and experiment.data.partition == "local":
        raise UsageError("data.partition is 'local', and data stays where it is: not by --dask")
    options = with_fleet(options, experiment, fleet)
    if dask is None:
        launch.require_data(options, experiment)
    with (
        with_page(options, page) as shown,
        clients_for(processes, dask) as clients,
    ):
        store = find_or_create(options.runs, experiment, name)
        if fleet is not None:
            keep_fleet(fleet, store.folder)
        finished = launch.simulate(shown, store, clients)
    _exit(finished=finished)


def _exit(*, finished: bool) -> None:
    sys.exit(0 if finished else INTERRUPTED)
