"""fl-server central and fl-server algorithms: the baseline, and what there is to compare."""

from __future__ import annotations

import inspect
from pathlib import Path

import click

from common.algorithms import choices, find_builder, known_builders, options_of
from common.config import Experiment
from common.disk.lock import FolderLock
from common.errors import UsageError
from common.experiment.file import load_experiment
from common.experiment.tasks import task_of
from common.ids import check_name
from common.program.signals import ends_with
from common.tasks.metrics import LOSS
from fl_server.cli.options import experiment_file, overrides_option, run_option
from fl_server.run.find import resume_command
from fl_server.run.model.first import check_start
from fl_server.sweeps.grid import plan, read_lists
from fl_server.watch.words import measure


@click.command()
@experiment_file
@overrides_option
@run_option
@click.option("--runs", type=click.Path(path_type=Path), default="runs", show_default=True,
              metavar="DIR", help="Where run folders are kept.")  # fmt: skip
def central(file: Path, overrides: tuple[str, ...], name: str | None, runs: Path) -> None:
    """Train one model on the samples of all clients together: the centralized baseline.

    A file with a [sweep] section has several trainings, which are done one after another.

    \b
    Example: fl-server central examples/demo.toml --set central.epochs=30
    """
    if not read_lists(file):
        experiment = load_experiment(file, overrides)
        train_centrally(experiment, name or f"{experiment.experiment.name}-central", runs)
        return
    if name is not None:
        raise UsageError(f"{file} has a [sweep] section; its trainings have names of their own")
    for planned in plan([file], (), overrides):
        click.echo(f"{planned.name}:")
        train_centrally(planned.experiment, f"{planned.name}-central", runs)


def train_centrally(experiment: Experiment, name: str, runs: Path) -> None:
    """One training; one that was interrupted goes on, a finished one is only reported."""
    if experiment.data.partition == "local":
        raise UsageError(
            "data.partition is 'local': nobody has the samples of all clients together, so "
            "there is no centralized training"
        )
    check_start(experiment)
    wanted = check_name(name, "--run")
    from fl_server.central.baseline import Central, EpochLine  # imports torch

    total = experiment.central.epochs

    main = task_of(experiment).main

    def show(line: EpochLine) -> None:
        tested, held = line.tests[main.name], line.validation
        words = [f"loss {line.train_loss:.3f}"]
        if isinstance(line.tests[LOSS], float):
            words.append(f"test loss {line.tests[LOSS]:.3f}")
        if isinstance(tested, float):
            words.append(f"{main.name} {measure(tested, share=main.share)}")
        if isinstance(held, float):
            words.append(f"validation {measure(held, share=main.share)}")
        click.echo(f"epoch {line.epoch}/{total}: {', '.join(words)}")

    again = resume_command(runs / wanted)
    with FolderLock(runs / wanted, f"the training {wanted!r}"), ends_with(again):
        digest = Central(runs / wanted, experiment).run(runs / ".shards", show)
    click.echo(f"finished; model {digest} in {runs / wanted}")


def _complete_algorithm(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    return [name for name in sorted(known_builders()) if name.startswith(begun)]


@click.command()
@click.argument("name", required=False, shell_complete=_complete_algorithm)
def algorithms(name: str | None) -> None:
    """List the algorithms, or describe one: its options, their defaults and meaning.

    \b
    Example: fl-server algorithms
    Example: fl-server algorithms fedreg
    """
    names = sorted(known_builders()) if name is None else [name]
    width = max(map(len, names))
    for one in names:
        builder = find_builder(one)
        click.echo(f"{one:{width}}  {_first_line(inspect.getdoc(builder))}")
        for key, (kind, default) in options_of(builder).items():
            click.echo(f"{'':{width}}    {key} = {default!r}{_words(kind)}")
            if name is not None and (text := _meaning(kind)):
                click.echo(f"{'':{width}}      {text}")


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0]


def _meaning(kind: object) -> str:
    return " ".join(
        meta.description for meta in getattr(kind, "__metadata__", ()) if meta.description
    )


def _words(kind: object) -> str:
    allowed = choices(kind)
    return f"  ({allowed})" if "'" in allowed else ""
