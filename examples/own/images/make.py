"""Makes what this example needs: a folder of pictures, and weights that were trained before.

pictures/    circle, square and triangle: a folder for each class, pictures of several sizes
weights.safetensors    mobilenet_v3_small, trained on six other shapes: its head does not fit
"""

from __future__ import annotations

import math
from pathlib import Path

import click
import numpy as np
import safetensors.torch
import torch
from PIL import Image, ImageDraw
from torch import Tensor, nn
from torch.nn import functional

from common.data.datasets.torchvision_import import import_models

HERE = Path(__file__).parent
CORNERS = {"triangle": 3, "square": 4, "circle": 40}
OTHERS = (3, 4, 5, 6, 8, 40)  # corners of the shapes that the network was trained on before
SIDE = 32


def draw(corners: int, rng: np.random.Generator) -> Image.Image:
    """A shape somewhere, of any colour, on a background of any colour."""
    side = int(rng.integers(SIDE, 2 * SIDE))
    picture = Image.new("RGB", (side, side), _colour(rng, 0, 120))
    radius, turn = side * rng.uniform(0.25, 0.4), rng.uniform(0, math.tau)
    x, y = rng.uniform(0.4, 0.6, 2) * side
    angles = [turn + math.tau * at / corners for at in range(corners)]
    points = [(x + radius * math.cos(a), y + radius * math.sin(a)) for a in angles]
    ImageDraw.Draw(picture).polygon(points, fill=_colour(rng, 130, 255))
    return picture


def _colour(rng: np.random.Generator, low: int, high: int) -> tuple[int, int, int]:
    red, green, blue = rng.integers(low, high, 3).tolist()
    return red, green, blue


def write_pictures(folder: Path, count: int) -> None:
    """So many pictures of each class."""
    rng = np.random.default_rng(1)
    for name, corners in CORNERS.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for at in range(count):
            draw(corners, rng).save(folder / name / f"{at:04d}.png")


def write_weights(file: Path, count: int, epochs: int) -> None:
    """Train the network on other shapes, as one would find it trained elsewhere."""
    rng = np.random.default_rng(2)
    made = [(draw(c, rng), at) for at, c in enumerate(OTHERS) for _ in range(count)]
    scaled = [np.asarray(picture.resize((SIDE, SIDE))) for picture, _ in made]
    images = torch.tensor(np.stack(scaled)).permute(0, 3, 1, 2) / 127.5 - 1
    labels = torch.tensor([label for _, label in made])
    torch.set_num_threads(1)  # the fastest on shared cores
    torch.manual_seed(1)
    model = import_models("mobilenet_v3_small").mobilenet_v3_small(num_classes=len(OTHERS))
    optimizer = torch.optim.Adam(model.parameters(), 0.001)
    for epoch in range(epochs):
        order, right = torch.randperm(len(labels)), 0
        for batch in order.split(32):
            answers = model(images[batch])
            optimizer.zero_grad()
            functional.cross_entropy(answers, labels[batch]).backward()
            optimizer.step()
            right += int((answers.argmax(1) == labels[batch]).sum())
        click.echo(f"epoch {epoch + 1}/{epochs}: {right / len(labels):.0%} right")
    measure_norms(model, images)
    safetensors.torch.save_file(model.state_dict(), file)


def measure_norms(model: nn.Module, images: Tensor) -> None:
    """Measure the running statistics, which follow too slowly for so short a training."""
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all batches
    with torch.no_grad():
        for batch in images.split(60):
            model(batch)


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), default=HERE)
@click.option("--pictures", default=60, help="Pictures of each class.")
@click.option("--epochs", default=6, help="Epochs of the training before.")
def main(folder: Path, pictures: int, epochs: int) -> None:
    """Write pictures/ and weights.safetensors."""
    write_pictures(folder / "pictures", pictures)
    write_weights(folder / "weights.safetensors", pictures, epochs)
    click.echo(f"wrote {folder / 'pictures'} and {folder / 'weights.safetensors'}")


if __name__ == "__main__":
    main()
