"""Training on one pool of samples, epoch by epoch: the centralized baseline and the warm-up."""

from __future__ import annotations

import math

import msgspec
import numpy as np
from torch import Tensor

from common.arrays import Array, Arrays
from common.config import Experiment
from common.data.augmentation.image_ops import shifted
from common.data.samples import Images, Samples
from common.experiment.resolve import network_of
from common.experiment.tasks import measure_of
from common.learning.device import use_one_thread
from common.learning.net import TorchNet
from common.learning.networks import extract, load
from common.learning.training import Plan, train
from common.rng import generator
from common.tasks.metrics import Value

LAST_RATE = 0.01  # of the first rate is what an exponential schedule comes down to
CROP = 4  # pixels a crop may be away from the middle


class Learner:
    """A model and the memory of its optimizer."""

    def __init__(
        self, experiment: Experiment, model: Arrays, memory: dict[str, Tensor] | None = None
    ) -> None:
        use_one_thread()
        self.memory = memory or {}
        self._experiment = experiment
        self.measure = measure_of(experiment)
        self._network = network_of(experiment)
        load(self._network, model)

    def epoch(self, samples: Samples, number: int, rate: float, *, augment: bool) -> float:
        """One pass over the samples; the mean loss."""
        rng = generator(self._experiment.experiment.seed, "central", number)
        if augment:
            samples = _augmented(samples, rng)
        settings = msgspec.structs.replace(self._experiment.training, learning_rate=rate)
        net = TorchNet(self._network)
        loss, plan = self.measure.loss.mean, Plan(epochs=1)
        return train(net, samples, settings, rng, plan, loss=loss, memory=self.memory).loss

    def tests(self, samples: Samples) -> dict[str, Value]:
        """The task's metrics on these samples."""
        sums = self.measure.sums(TorchNet(self._network), samples)
        return self.measure.task.values((sums.samples, sums.sums))

    def main(self, samples: Samples) -> float:
        """The task's main metric on these samples; the worst, if it has none."""
        task = self.measure.task
        found = self.tests(samples)[task.main.name]
        return found if isinstance(found, float) else math.inf * (1 if task.main.lower else -1)

    def model(self) -> dict[str, Array]:
        """The model as it is now."""
        return extract(self._network)


def rate_of(experiment: Experiment, epoch: int) -> float:
    """The learning rate of an epoch, counted from 1."""
    full, central = experiment.training.learning_rate, experiment.central
    done = (epoch - 1) / central.epochs
    match central.schedule:
        case "constant":
            return full
        case "cosine":
            return full * (1 + math.cos(math.pi * done)) / 2
        case "linear":
            return full * (1 - done)
        case "step":
            return full * (1.0 if done < 0.5 else 0.1 if done < 0.75 else 0.01)
        case "exponential":
            return full * math.pow(LAST_RATE, done)


def _augmented(samples: Samples, rng: np.random.Generator) -> Samples:
    """The samples with other images; numbers and symbols stay as they are."""
    inputs = tuple(
        crops_and_flips(part, rng) if part.dtype == np.uint8 and part.ndim == 4 else part
        for part in samples.inputs
    )
    return Samples(inputs, samples.targets)


def crops_and_flips(images: Images, rng: np.random.Generator) -> Images:
    """Every image moved by a few pixels, half of them mirrored."""
    right = rng.integers(-CROP, CROP + 1, len(images)).astype(np.float64)
    down = rng.integers(-CROP, CROP + 1, len(images)).astype(np.float64)
    mirror = rng.random(len(images)) < 0.5
    flipped = np.where(mirror[:, None, None, None], images[..., ::-1], images)
    return shifted(flipped, right, down)
