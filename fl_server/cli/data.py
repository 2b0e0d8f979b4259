"""fl-server data: look at who has which samples, and make shards for boards."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from common.config import Experiment
from common.data.dataset import OF_CLASSES, info_of
from common.data.rebalance import Counts, Rebalance
from common.errors import UsageError
from common.experiment.file import load_experiment
from common.experiment.resolve import algorithm_of
from common.ids import parse_ids
from common.program.cli import set_up_logging
from fl_server.cli.options import experiment_file, overrides_option
from fl_server.data import distribution
from fl_server.data.local import reported_distribution
from fl_server.data.picture import check_picture, write_picture
from fl_server.data.prepare import prepare as prepare_shards
from fl_server.data.sheet import sheet_of, write_sheet
from fl_server.data.terminal_bars import palette, print_bars


@click.group()
def data() -> None:
    """Show who has which samples, and make shards for boards.

    \b
    Example: fl-server data show examples/demo.toml
    """


@data.command()
@experiment_file
@overrides_option
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), metavar="DIR",
              help="An empty folder, or one that has shards of this experiment.")  # fmt: skip
@click.option("--clients", "ids", metavar="IDS",
              help="Only the shards of these, such as 0-2.  [default: all]")  # fmt: skip
def prepare(file: Path, overrides: tuple[str, ...], out: Path, ids: str | None) -> None:
    """Write the shard of every client, and a manifest, for boards without the dataset.

    \b
    Example: fl-server data prepare examples/demo.toml -o shards --clients 0-2
    """
    set_up_logging(0)
    experiment = load_experiment(file, overrides)
    if experiment.data.partition == "local":
        raise UsageError(
            "data.partition is 'local': boards have their data already, nothing to prepare"
        )
    clients = parse_ids(ids) if ids else tuple(range(experiment.data.clients))
    manifest = prepare_shards(experiment, out, clients)
    click.echo(
        f"{out / manifest.key} has {len(manifest.sha256)} files; copy what a board needs"
    )


@data.command()
@experiment_file
@overrides_option
@click.option("-o", "--out", type=click.Path(path_type=Path), metavar="FILE",
              help="Write a picture (.png or .svg) instead.")  # fmt: skip
@click.option("--rebalanced", is_flag=True,
              help="The clients' rebalanced sets (to the mean of each client's classes, unless "
              "the algorithm says otherwise).")  # fmt: skip
@click.option("--augmented", is_flag=True,
              help="A sheet of images and what the algorithm's augmentation makes of them "
              "(needs -o).")  # fmt: skip
def show(
    file: Path,
    overrides: tuple[str, ...],
    out: Path | None,
    rebalanced: bool,
    augmented: bool,
) -> None:
    """Draw how many samples of each class each client has to train.

    Of data that only boards have: what they reported in a run, given its experiment.toml.

    \b
    Example: fl-server data show examples/demo.toml
    Example: fl-server data show examples/demo.toml --rebalanced -o distribution.png
    Example: fl-server data show examples/demo.toml --augmented -o sheet.png
    """
    if out is not None:
        check_picture(out)
    experiment = load_experiment(file, overrides)
    if augmented:
        _show_augmented(experiment, out)
        return
    if experiment.data.partition == "local":
        there = reported_distribution(experiment, file.parent)
    else:
        there = distribution.distribution_of(experiment)
    title, counts = distribution.title_of(experiment.data), there.train
    notes = [f"{size:,}" for size in there.sizes]
    of_classes = info_of(experiment.data).kind in OF_CLASSES
    if rebalanced and not of_classes:
        raise UsageError(f"--rebalanced is for classes; {experiment.data.dataset} has none")
    if rebalanced:
        rule = algorithm_of(experiment).rebalance or Rebalance()
        made = distribution.rebalanced(there, rule)
        title, counts = f"{title},\n{distribution.rebalance_title(rule)}", made.train
        notes = [
            f"{size:,} ({own:,})" for size, own in zip(made.sizes, made.effective, strict=True)
        ]
    if out is not None:
        write_picture(out, title, counts, palette(counts.shape[1]))
        click.echo(f"wrote {out}")
        return
    nouns = ("class", "classes") if of_classes else ("bin", "bins")
    footer = _summary(counts, nouns[1], rebalanced=rebalanced)
    print_bars(title, counts, notes, footer, nouns[0])


def _show_augmented(experiment: Experiment, out: Path | None) -> None:
    if out is None:
        raise UsageError("--augmented is a picture; name its file: -o sheet.png")
    rule = algorithm_of(experiment).rebalance or Rebalance()
    title = f"{experiment.data.dataset}, augmentation {rule.augmentation}"
    write_sheet(out, title, sheet_of(experiment, rule))
    click.echo(f"wrote {out}")


def _summary(counts: Counts, noun: str, *, rebalanced: bool) -> str:
    sizes, classes = counts.sum(1), (counts > 0).sum(1)
    what = (
        "rebalanced samples (in brackets: not augmented)" if rebalanced else "samples to train"
    )
    of = f" of {classes.min()} to {classes.max()} {noun}" if counts.shape[1] > 1 else ""
    return (
        f"{sizes.sum():,} {what}\neach client: {sizes.min():,} to {sizes.max():,} "
        f"(median {np.median(sizes):,.0f}){of}"
    )
