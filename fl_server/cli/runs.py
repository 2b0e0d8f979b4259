"""fl-server runs, diff, recompute: a folder of runs, and whether models are the same."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click
import msgspec

from common.arrays import digest
from common.errors import UsageError
from fl_server import launch
from fl_server.cli.options import complete_run, run_argument, runs_option
from fl_server.coordinator.dask_clients import clients_for
from fl_server.launch.recompute import recompute
from fl_server.reports.listing import RunLine, run_lines
from fl_server.reports.output.terminal import print_table
from fl_server.reports.tables import Column, Table
from fl_server.run.find import find_run
from fl_server.run.model.diff import model_diff
from fl_server.run.model.file import NAME, read_model
from fl_server.watch.facts.lines import ACCURACY
from fl_server.watch.words import measure

COLUMNS = (
    *(Column("run"), Column("state"), Column("algorithm"), Column("dataset")),
    *(Column("seed", "count"), Column("rounds"), Column("best")),
    *(Column("model"), Column("changed")),
)
MOST = 12


@click.command("runs")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@runs_option
def list_runs(as_json: bool, runs: Path) -> None:
    """List the runs of a folder, the latest one last.

    \b
    Example: fl-server runs
    Example: fl-server runs --json --runs ~/experiments
    """
    lines, problems = run_lines(runs)
    if as_json:
        for line in lines:
            click.echo(msgspec.json.encode(line))
    elif lines:
        rows = tuple(_row(line) for line in lines)
        print_table(Table("runs", f"Runs in {runs}", COLUMNS, rows))
    else:
        click.echo(f"no run in {runs}; start one with: fl-server lab EXPERIMENT.toml")
    for problem in problems:
        click.echo(f"cannot be read: {problem}", err=True)


def _row(line: RunLine) -> tuple[str | int | float | None, ...]:
    changed = time.strftime("%Y-%m-%d %H:%M", time.localtime(line.changed))
    return (
        *(line.name, line.state, line.algorithm, line.dataset, line.seed),
        *(f"{line.done} of {line.of}", _best(line), line.digest[:8] or "-", changed),
    )


def _best(line: RunLine) -> str:
    value = measure(line.best, share=line.main.share)
    return value if line.best is None or line.main == ACCURACY else f"{line.main.name} {value}"


@click.command("diff")
@click.argument("first", metavar="A", shell_complete=complete_run)
@click.argument("second", metavar="B", shell_complete=complete_run)
@runs_option
def diff(first: str, second: str, runs: Path) -> None:
    """Say whether two models have the same bits, and where they differ (exit code 1).

    A and B are runs, or safetensors files.

    \b
    Example: fl-server diff demo-1 demo-2
    """
    one, other = (read_model(_file(name, runs)) for name in (first, second))
    found = model_diff(one, other)
    if not found:
        click.echo(f"same bits: {len(one)} arrays, digest {digest(one)}")
        return
    columns = (
        *(Column("array"), Column("largest difference"), Column("relative to its norm")),
        Column("values that differ"),
    )
    rows = tuple(
        (each.name, each.text, "", "")
        if each.text
        else (
            *(each.name, f"{each.largest:.3g}", f"{each.relative:.3g}"),
            f"{each.changed} of {each.size}",
        )
        for each in found
    )
    title = f"{len(found)} of {len({*one, *other})} arrays differ"
    print_table(Table("diff", title, columns, rows))
    click.echo(f"{first}: {digest(one)}\n{second}: {digest(other)}")
    sys.exit(1)


@click.command("recompute")
@run_argument
@click.option("--processes", type=click.IntRange(1, 64), default=1, show_default=True,
              help="Processes that train side by side.")  # fmt: skip
@runs_option
def recompute_run(name: str, processes: int, runs: Path) -> None:
    """Train a finished run again, in the order in which it has used updates.

    Every line of metrics.jsonl says whose updates made the model, and which model each started
    from. Exit status 1 if that does not lead to the model with which the run has ended: another
    CPU or torch, other data or code, or an account that is not true.

    \b
    Example: fl-server recompute demo-1 --processes 2
    """
    store = find_run(runs, name)
    with clients_for(processes, None) as clients:
        done = recompute(store, clients, launch.RunOptions(runs=runs).shards)
    what = f"{done.rounds} rounds with {done.trainings} trainings"
    if done.found == done.expected:
        click.echo(f"same bits: {what}, digest {done.found}")
        return
    click.echo(f"{what} lead to {done.found}, but the run ended with {done.expected}")
    sys.exit(1)


def _file(name: str, runs: Path) -> Path:
    for path in (Path(name), runs / name):
        if path.is_file():
            return path
        if (path / NAME).is_file():
            return path / NAME
        if (path / "run.json").is_file():
            raise UsageError(f"run {name!r} has no {NAME} yet; it is not finished")
    raise UsageError(f"no run {name!r} in {runs}, and no such file")
