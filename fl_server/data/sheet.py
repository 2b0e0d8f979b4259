"""A sheet of images and what augmentation makes of them: a row for each class."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from common.config import Experiment
from common.data.augmentation.five_step import augmented
from common.data.datasets import load_dataset
from common.data.rebalance import Rebalance
from common.data.samples import Images
from common.disk.atomic import disk_errors
from common.errors import UsageError
from common.rng import generator
from fl_server.data.picture import DOTS, new_figure

COPIES = 10
MOST_CLASSES = 20
INCH = 0.5  # of an image


def sheet_of(experiment: Experiment, rebalance: Rebalance) -> Images:
    """[classes, 1 + copies, channels, height, width]: an image of each class and its copies."""
    dataset = load_dataset(experiment.data.dataset)
    images = dataset.inputs[0]
    if not isinstance(images, np.ndarray) or images.ndim != 4 or images.dtype != np.uint8:
        raise UsageError(
            f"data.dataset is {experiment.data.dataset!r}; only images are augmented"
        )
    rng = generator(experiment.experiment.seed, "augmented-sheet")
    labels = range(min(dataset.classes, MOST_CLASSES))
    firsts = [rng.choice(np.flatnonzero(dataset.targets == label)) for label in labels]
    originals = images[np.repeat(firsts, COPIES)]
    copies = augmented(originals, rebalance.augmentation, rng)
    copies = copies.reshape(len(firsts), COPIES, *copies.shape[1:])
    sheet: Images = np.concatenate([images[np.array(firsts)][:, None], copies], axis=1)
    return sheet


def write_sheet(path: Path, title: str, sheet: Images) -> None:
    """Draw it: the original first, then its copies."""
    rows, columns, channels, height, width = sheet.shape
    gap = np.full((rows, 1, channels, height, width), 255, np.uint8)
    sheet = np.concatenate([sheet[:, :1], gap, sheet[:, 1:]], axis=1)
    pixels = sheet.transpose(0, 3, 1, 4, 2).reshape(
        rows * height, (columns + 1) * width, channels
    )
    figure = new_figure()
    figure.set_size_inches((columns + 2) * INCH, rows * INCH + 0.6)
    axes = figure.add_subplot()
    axes.imshow(pixels if channels == 3 else pixels[..., 0], cmap="gray", vmin=0, vmax=255)
    axes.set_yticks((np.arange(rows) + 0.5) * height, [str(label) for label in range(rows)])
    axes.set_xticks([width / 2, (columns + 3) * width / 2], ["original", "augmented"])
    axes.tick_params(length=0)
    axes.set_title(title, loc="left", fontsize=9)
    for side in axes.spines.values():
        side.set_visible(False)
    about = {"Date": None} if path.suffix == ".svg" else None
    with disk_errors(path):
        figure.savefig(path, dpi=2 * DOTS, metadata=about)
