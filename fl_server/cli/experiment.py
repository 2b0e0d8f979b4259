"""fl-server init and fl-server check: experiment files, written and looked at."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from common.config import Experiment
from common.errors import UsageError
from common.experiment.file import load_experiment, write_text
from fl_server.check.verdict import Verdict, judge
from fl_server.cli.options import experiment_file, overrides_option


@click.command()
@click.argument(
    "file", metavar="FILE", type=click.Path(path_type=Path), default="experiment.toml"
)
def init(file: Path) -> None:
    """Write an experiment file with every setting, its default and what it means.

    \b
    Example: fl-server init my-experiment.toml
    """
    if file.exists():
        raise UsageError(f"{file} is already there; it is not overwritten")
    try:
        file.write_text(write_text(Experiment()), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error
    click.echo(f"wrote {file}; run it with: fl-server lab {file}")


@click.command()
@experiment_file
@overrides_option
@click.option("--all", "complete", is_flag=True,
              help="Print the experiment with all defaults first.")  # fmt: skip
def check(file: Path, overrides: tuple[str, ...], complete: bool) -> None:
    """Check an experiment: what it needs, and whether its settings make sense.

    The exit code is 2 if it cannot be run as it is.

    \b
    Example: fl-server check examples/demo.toml
    Example: fl-server check examples/demo.toml --all
    """
    experiment = load_experiment(file, overrides)
    if complete:
        click.echo(write_text(experiment))
    verdict = judge(experiment)
    _show(verdict)
    if verdict.problems:
        click.echo(f"{file} cannot be run: {_count(verdict.problems, 'problem')}", err=True)
        sys.exit(2)
    doubtful = f", but see {_count(verdict.doubts, 'note')} above" if verdict.doubts else ""
    click.echo(f"{file} can be run{doubtful}: fl-server lab {file}")


def _show(verdict: Verdict) -> None:
    for topic, text in verdict.lines:
        click.echo(f"{topic:12}{text}")
    for text in verdict.doubts:
        click.echo(f"{'note':12}{text}")
    for text in verdict.problems:
        click.echo(f"{'problem':12}{text}")


def _count(things: tuple[str, ...], word: str) -> str:
    return f"{len(things)} {word}{'' if len(things) == 1 else 's'}"
