"""fl-server init and fl-server check: experiment files, written and looked at."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from common.errors import UsageError
from common.experiment.file import load_experiment, name_from, parse_experiment, write_text
from fl_server.check.draft import Wanted, draft
from fl_server.check.verdict import Verdict, judge
from fl_server.cli.options import experiment_file, overrides_option


@click.command()
@click.argument(
    "file", metavar="FILE", type=click.Path(path_type=Path), default="experiment.toml"
)
@click.option("--dataset", metavar="KIND:PATH",
              help="Your own data, such as csv:FILE, npz:FILE or folder:PATH: look at it, and "
              "write a short file that fits.")  # fmt: skip
@click.option(
    "--target",
    default="",
    metavar="COLUMN",
    help="What models learn to answer.  [default: target, targets or label]",
)
@click.option(
    "--features",
    default="",
    metavar="LIST",
    help="The columns that models get, such as a,b,c.  [default: all others]",
)
@click.option(
    "--clients",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Clients.  [default: 12, fewer where there are few samples; local: 4]",
)
@click.option(
    "--local",
    is_flag=True,
    help="The data is an example of what boards have, under the same file name.",
)
def init(
    file: Path, dataset: str | None, target: str, features: str, clients: int, local: bool
) -> None:
    """Write an experiment file: every setting and what it means, or a short one for your data.

    \b
    Example: fl-server init my-experiment.toml
    Example: fl-server init power.toml --dataset csv:power.csv --target kw
    Example: fl-server init pictures.toml --dataset folder:pictures
    """
    if file.exists():
        raise UsageError(f"{file} is already there; it is not overwritten")
    if dataset is None and (target or features or clients or local):
        raise UsageError("--target, --features, --clients and --local are about a --dataset")
    chosen = tuple(name.strip() for name in features.split(",") if name.strip())
    made = draft(file, Wanted(dataset, target, chosen, clients, local)) if dataset else None
    named = parse_experiment({"experiment": {"name": name_from(file)}})
    text = write_text(named) if made is None else made.text
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error
    if made is not None:
        click.echo(f"found {made.found}")
        for text in made.doubts:
            click.echo(f"note: {text}")
    where = " --data FOLDER" if local else ""
    click.echo(f"wrote {file}; run it with: fl-server lab {file}{where}")
    if made is not None and made.model_to_write:
        click.echo(f"first write the model {made.model_to_write}: docs/own.md")


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
    where = " --data FOLDER" if experiment.data.partition == "local" else ""
    click.echo(f"{file} can be run{doubtful}: fl-server lab {file}{where}")


def _show(verdict: Verdict) -> None:
    for topic, text in verdict.lines:
        click.echo(f"{topic:12}{text}")
    for text in verdict.doubts:
        click.echo(f"{'note':12}{text}")
    for text in verdict.problems:
        click.echo(f"{'problem':12}{text}")


def _count(things: tuple[str, ...], word: str) -> str:
    return f"{len(things)} {word}{'' if len(things) == 1 else 's'}"
